"""The balance tables against plain Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.trace import Origin
from tests.reference import balance as slow
from tests.reference.histogram import log_bin
from tests.traces import build, rows_of, traces
from tests.views.study import as_bytes, study, tables

if TYPE_CHECKING:
    from servescope.trace import Trace

NAMES = ("instance_minute", "load_latency_cell", "user_hour", "user_hour_instance")
NEED = (
    "model",
    "instance",
    "user",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "ttft_s",
    "completed_us",
)
DAY_US = 86_400_000_000


def keyed(rows: list[dict[str, Any]], keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The first columns -> the others; a key twice is an error."""
    found = {tuple(row.values())[:keys]: tuple(row.values())[keys:] for row in rows}
    assert len(found) == len(rows)
    return found


def inside(value: float, low: float, high: float) -> bool:
    """Whether a bin is the one of a value, edges to 12 digits."""
    if value < 0:
        return low == float("-inf") and high == 0
    k = log_bin(value)
    return (low, high) == (0, 0) if k is None else low == pytest.approx(10 ** (k / 100))


def check_loads(found: list[dict[str, Any]], expected: Counter[Any]) -> None:
    """Every point lies in exactly one bin, and the counts agree."""
    counts: Counter[Any] = Counter()
    for (model, metric, load, tokens, latency), times in expected.items():
        own = [
            i
            for i, row in enumerate(found)
            if (row["model"], row["metric"]) == (model, metric)
            and row["load_low"] * (1 - 1e-12) <= load < row["load_high"] * (1 - 1e-12)
            and row["tokens_low"] * (1 - 1e-12) <= tokens < row["tokens_high"] * (1 - 1e-12)
            and inside(latency, row["bin_low"], row["bin_high"])
        ]
        assert len(own) == 1
        counts[own[0]] += times
    assert [counts[i] for i in range(len(found))] == [row["count"] for row in found]


def check(trace: Trace, window: tuple[float, float], models: list[str], **options: Any) -> dict[str, Any]:
    made = tables(trace, *NAMES, **options)
    expected = slow.Balance(rows_of(trace), trace.meta.origin.clock_us, models, window)
    assert keyed(made["instance_minute"].rows(), 3) == expected.instance_minute()
    assert keyed(made["user_hour"].rows(), 3) == expected.user_hour()
    assert keyed(made["user_hour_instance"].rows(), 4) == expected.user_hour_instance()
    check_loads(made["load_latency_cell"].rows(), expected.load_points())
    return made


@pytest.mark.parametrize("seed", range(3))
def test_a_seeded_trace(seed: int) -> None:
    made = check(study(seed), (0, float("inf")), ["m0", "m1", "m2"], lb_models=("m0", "m1", "m2"))
    assert made["user_hour_instance"].data.num_rows >= 4
    assert None in made["user_hour_instance"].data["instance"].to_pylist()


def test_busy_seconds() -> None:
    trace = study(7, 1_500, gap_us=300_000)
    check(trace, (0, float("inf")), ["m0"], lb_models=("m0",))


@settings(max_examples=40)
@given(traces(need=NEED), st.integers(1, 6))
def test_small_traces_in_any_slices(trace: Trace, rows: int) -> None:
    models = trace.names("model")
    if models:
        check(trace, (0, float("inf")), models, lb_models=tuple(models), slice_rows=rows)


@pytest.mark.parametrize("gap_us", [300_000, 4_000_000])
def test_slices_and_threads_give_the_same_bytes(gap_us: int) -> None:
    trace = study(5, cuts=(1, 2, 3, 4, 700, 701, 702, 1500, 2999), gap_us=gap_us)
    whole = as_bytes(tables(trace, *NAMES))
    for rows, threads in ((1, 1), (1, 2), (600, 2)):
        assert as_bytes(tables(trace, *NAMES, slice_rows=rows, threads=threads)) == whole


def test_the_window_is_half_open_in_days_of_the_trace_clock() -> None:
    starts = [0, DAY_US, 2 * DAY_US, 100 * DAY_US]
    columns = {"arrival_us": starts, "model": ["a"] * 4, "user": ["u"] * 4, "instance": ["i"] * 4}
    trace = build(columns, origin=Origin("nominal", 5 * DAY_US * 1000))
    hours = [row["hour"] for row in tables(trace, "user_hour", lb_window_days=(6, 7))["user_hour"].rows()]
    assert hours == [24 * 6]
    last = [row["hour"] for row in tables(trace, "user_hour")["user_hour"].rows()]
    assert last == [24 * 105]  # the default window ends with the last request
    with pytest.raises(UsageError, match="--lb-window: a window needs a first day below"):
        tables(trace, "user_hour", lb_window_days=(7, 7))


def test_models_are_chosen_or_the_heaviest() -> None:
    models = ["a", "b", "b", "c", "d", "d", "c"]
    columns = {"arrival_us": [0] * 7, "model": models, "user": ["u"] * 7}
    trace = build(columns)
    found = {row["model"] for row in tables(trace, "user_hour")["user_hour"].rows()}
    assert found == {"b", "c", "d"}
    assert {r["model"] for r in tables(trace, "user_hour", lb_models=("a",))["user_hour"].rows()} == {"a"}
    with pytest.raises(UsageError, match='unknown model "e"'):
        tables(trace, "user_hour", lb_models=("e",))


def test_unknown_sums_are_null_and_not_zero() -> None:
    trace = build({"arrival_us": [0], "model": ["a"], "user": ["u"], "instance": ["i"]})
    made = tables(trace, "user_hour", "instance_minute")
    assert made["user_hour"].rows() == [
        {"model": "a", "user": "u", "hour": 0, "n": 1, "it_sum": None, "ct_sum": None}
    ]
    (row,) = made["instance_minute"].rows()
    assert (row["requests"], row["tokens"], row["cached"]) == (1, None, None)
