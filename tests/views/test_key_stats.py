"""`user_stats` and `model_stats` against plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from servescope.trace import Origin
from servescope.views import run_views
from servescope.views.clock import month_of
from tests.reference import balance as slow
from tests.traces import build, rows_of, traces
from tests.views.study import as_bytes, study, tables

if TYPE_CHECKING:
    from servescope.trace import Trace

COUNTS = ("n_shape", "n_hit")


def check(found: list[dict[str, Any]], expected: dict[str, dict[str, Any]], column: str) -> None:
    assert {row[column] for row in found} == set(expected) and len(found) == len(expected)
    for row in found:
        own = expected[row[column]]
        assert [row[name] for name in COUNTS] == [own[name] for name in COUNTS]
        for name in ("it_median", "ot_median"):
            assert row[name] == (None if own[name] is None else pytest.approx(own[name], rel=0.024))
        if row["hit_sum"] is not None:
            assert own["hit_sum"] - own["n_hit"] * 2.0**-32 - 1e-9 <= row["hit_sum"] <= own["hit_sum"] + 1e-9
        else:
            assert own["n_hit"] == 0


def check_both(trace: Trace) -> None:
    rows, has = rows_of(trace), set(trace.meta.columns)
    made = tables(trace, *(n for n, c in (("user_stats", "user"), ("model_stats", "model")) if c in has))
    if "model" in has:
        check(made["model_stats"].rows(), slow.key_stats(rows, "model", has), "model")
    if "user" not in has:
        return
    expected = slow.key_stats(rows, "user", has)
    check(made["user_stats"].rows(), expected, "user")
    for row in made["user_stats"].rows():
        start = expected[row["user"]]["first"] + trace.meta.origin.clock_us
        assert row["first_start_us"] == start
        if "cohort" in has:
            assert row["cohort"] == expected[row["user"]]["cohort"]
        else:
            assert row["cohort"] == month_of(start)


@pytest.mark.parametrize("seed", range(3))
def test_a_seeded_trace(seed: int) -> None:
    check_both(study(seed))


@given(traces(need=("user", "model")))
def test_any_columns(trace: Trace) -> None:
    check_both(trace)


@given(traces(need=("user",)))
def test_users_alone(trace: Trace) -> None:
    check_both(trace)


def test_slices_and_threads_give_the_same_bytes() -> None:
    trace = study(5, cuts=(1, 2, 700, 701, 1500))
    names = ("user_stats", "model_stats")
    whole = as_bytes(tables(trace, *names))
    for rows, threads in ((1, 1), (1, 2), (600, 2)):
        assert as_bytes(tables(trace, *names, slice_rows=rows, threads=threads)) == whole


def test_without_a_side_table_the_cohort_is_a_guess_and_says_so() -> None:
    trace = build({"arrival_us": [0, 31 * 86_400_000_000], "user": ["a", "b"]}, origin=Origin("nominal"))
    (table,), notes, _ = run_views(trace, ["user_stats"])
    assert [row["cohort"] for row in table.rows()] == [1, 2]
    assert any("month of the key's first request" in note for note in notes)
    timeless = build({"arrival_us": [0, 0], "user": ["a", "b"]}, origin=Origin("none"))
    rows = tables(timeless, "user_stats")["user_stats"].rows()
    assert [(r["cohort"], r["first_start_us"], r["it_median"]) for r in rows] == [(None, None, None)] * 2


def test_hit_ratios_are_clipped_and_kept_in_whole_steps() -> None:
    columns = {"arrival_us": [0] * 4, "model": ["a"] * 4, "input_tokens": [3, 3, 2, 0]}
    columns["cached_tokens"] = [1, 9, -5, 1]
    (row,) = tables(build(columns), "model_stats")["model_stats"].rows()
    assert row["n_hit"] == 3
    assert row["hit_sum"] == (2**32 // 3 + 2**32) / 2**32
