"""Predicted beside logged cached tokens: counts against plain sums, verdicts, causes by sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.blocks import block_workload
from servescope.cache.capacity import Size
from servescope.cache.trust import HOUR_US, Logged, Trust, trust, trust_of_blocks, trust_of_sessions
from servescope.sessions.links import SessionOptions, session_links
from tests.traces import build

ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),  # half hours
        st.integers(-1, 1),  # model
        st.sampled_from([-1, 0, 40, 100]),  # input
        st.sampled_from([-1, 0, 16, 40]),  # logged
        st.integers(0, 100),  # predicted
    ),
    min_size=1,
    max_size=12,
)


def compare(rows: list[tuple[int, ...]]) -> Trust | None:
    times, models, inputs, logged, predicted = (
        np.array(column, np.int64) for column in zip(*rows, strict=True)
    )
    groups = {"model": (models, ["m0", "m1"])}
    stated = Logged(times * HOUR_US // 2 + 3 * HOUR_US, inputs, logged, groups)  # type: ignore[arg-type]
    return trust(stated, {"one": predicted, "nothing": 0 * predicted}, judged="one")


@given(ROWS)
def test_sums_are_those_of_plain_python(rows: list[tuple[int, ...]]) -> None:
    used = [row for row in rows if row[2] > 0 and row[3] >= 0]
    found = compare(rows)
    if not used:
        assert found is None
        return
    assert found is not None
    expected: dict[tuple[str, str], list[int]] = {}
    for half_hours, model, inputs, logged, predicted in used:
        name = "unknown" if model < 0 else f"m{model}"
        for key in (("all", "*"), ("hour", str(3 + half_hours // 2)), ("model", name)):
            sums = expected.setdefault(key, [0, 0, 0, 0])
            for at, value in enumerate((1, inputs, logged, predicted)):
                sums[at] += value
    got = {}
    for row in found.table.rows():
        if row["prediction"] == "one":
            columns = ("requests", "input_tokens", "logged_tokens", "predicted_tokens")
            got[row["dimension"], row["value"]] = [row[name] for name in columns]
            assert row["logged_ratio"] == row["logged_tokens"] / row["input_tokens"]
            apart = row["predicted_ratio"] - row["logged_ratio"]
            assert row["difference"] == pytest.approx(apart)
    assert got == expected
    whole = expected["all", "*"]
    assert found.withheld == (abs(whole[3] - whole[2]) / whole[1] > 0.05)
    assert any("are not compared" in note for note in found.notes) == (len(used) < len(rows))


def test_the_likelier_causes_come_first() -> None:
    high, low = compare([(0, 0, 100, 16, 90)]), compare([(0, 0, 100, 40, 0)])
    near = compare([(0, 0, 100, 40, 44)])
    assert high is not None and low is not None and near is not None
    assert "0.740 above" in high.notes[0]
    assert "Likely causes: the capacity is smaller" in high.notes[0]
    assert "0.400 below" in low.notes[0]
    assert "Likely causes: the capacity is larger" in low.notes[0]
    assert (near.withheld, near.notes) == (False, [])


def columns(**more: Any) -> dict[str, Any]:
    return {
        "arrival_us": [0, 1, 2, HOUR_US],
        "block_ids": [[1, 2], [1, 2], [7, 8], [1, 2]],
        "input_tokens": [32, 32, 20, 30],
        "instance": ["i0", "i1", "i0", "i0"],
        **more,
    }


def test_block_predictions_are_raw_and_as_engines_count() -> None:
    trace = build(columns(cached_tokens=[0, 16, None, 16]))
    made, _ = block_workload(trace)
    found = trust_of_blocks(trace, made, Size(32, 2, None, ()))
    assert found is not None
    rows = found.table.rows()
    whole = {row["prediction"]: row["predicted_tokens"] for row in rows if row["dimension"] == "all"}
    assert whole == {
        "unlimited": 32 + 30,  # the last prompt's second block holds 14 tokens
        "unlimited, engine": 16 + 16,
        "lru 2 blocks": 32,
        "lru 2 blocks, engine": 16,
    }
    hours = {(row["prediction"], row["value"]): row for row in rows if row["dimension"] == "hour"}
    assert hours["unlimited", "1"]["requests"] == 1
    instances = {row["value"]: row["requests"] for row in rows if row["dimension"] == "instance"}
    assert instances == {"i0": 2, "i1": 1}
    assert found.withheld  # LRU of two blocks finds 16 of the 32 logged tokens


def test_without_logged_tokens_there_is_nothing_to_compare() -> None:
    trace = build(columns())
    assert trust_of_blocks(trace, block_workload(trace)[0]) is None
    trace = build(columns(cached_tokens=[None] * 4))
    assert trust_of_blocks(trace, block_workload(trace)[0]) is None


def test_the_warm_up_is_not_compared() -> None:
    trace = build(columns(cached_tokens=[0, 16, 0, 16]))
    found = trust_of_blocks(trace, block_workload(trace, warmup=0.5)[0])
    assert found is not None
    assert found.table.rows()[0]["requests"] == 2


def test_session_predictions_are_the_prefixes_of_rebuilt_sessions() -> None:
    trace = build(
        {
            "arrival_us": [0, 10_000_000, 20_000_000],
            "completed_us": [1_000_000, 11_000_000, 21_000_000],
            "ttft_s": [0.1, 0.1, 0.1],
            "endpoint": ["chat_stream"] * 3,
            "model": ["m0"] * 3,
            "user": ["u0", "u0", "u1"],
            "instance": ["i0", "i0", "i1"],
            "input_tokens": [100, 150, 80],
            "output_tokens": [20, 5, 5],
            "cached_tokens": [0, 118, 0],
        }
    )
    links = session_links(trace, SessionOptions(rule="paper"))
    found = trust_of_sessions(trace, links)
    assert found is not None
    whole = found.table.rows()[0]
    assert (whole["requests"], whole["logged_tokens"], whole["predicted_tokens"]) == (3, 118, 120)
    assert not found.withheld
