"""`load_hour`, `model_day`, `month_shape` and `value_hist` against plain Python."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from servescope.errors import UsageError
from servescope.views import ViewOptions, run_views
from servescope.views.clock import day_runs, month_of, month_start_us
from tests.reference import chutes as slow
from tests.traces import build, rows_of, traces

if TYPE_CHECKING:
    from servescope.trace import Trace

TOKENS = ("input_tokens", "output_tokens")


def rows(trace: Trace, name: str, **options: Any) -> list[dict[str, Any]]:
    (table,), _, _ = run_views(trace, [name], threads=1, options=ViewOptions(**options))
    return table.rows()


def bins(found: list[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[tuple[float, float, int]]]:
    held: dict[tuple[Any, ...], list[tuple[float, float, int]]] = {}
    for row in found:
        edges = (float(f"{row['bin_low']:.12g}"), float(f"{row['bin_high']:.12g}"))
        held.setdefault(tuple(row[key] for key in keys), []).append((*edges, row["count"]))
    return held


def facts(trace: Trace) -> tuple[list[dict[str, Any]], int, set[str]]:
    return rows_of(trace), trace.meta.origin.clock_us, set(trace.meta.columns)


@given(traces())
def test_load_hour(trace: Trace) -> None:
    held, clock_us, has = facts(trace)
    found = {
        (r["hour"], r["endpoint_group"]): (
            r["requests"],
            r["completed_requests"],
            r["it_sum_completed"] if "input_tokens" in has else 0,
            r["ot_sum_completed"] if "output_tokens" in has else 0,
        )
        for r in rows(trace, "load_hour")
    }
    assert found == slow.load_hour(held, clock_us, has)


@given(traces())
def test_model_day(trace: Trace) -> None:
    held, clock_us, has = facts(trace)
    found = {
        (r["model"], r["day"]): (
            r["requests"],
            r["it_sum"] if "input_tokens" in has else 0,
            r["ot_sum"] if "output_tokens" in has else 0,
        )
        for r in rows(trace, "model_day")
    }
    assert found == slow.model_day(held, clock_us, has)


@given(traces())
def test_month_shape(trace: Trace) -> None:
    held, clock_us, has = facts(trace)
    assert bins(rows(trace, "month_shape"), "month", "metric") == slow.month_shape(held, clock_us, has)


@given(traces())
def test_value_hist_with_any_columns(trace: Trace) -> None:
    held, _, has = facts(trace)
    models = slow.highlights(held, trace.names("model"))
    assert bins(rows(trace, "value_hist"), "metric", "series") == slow.value_hist(held, has, models)


@given(traces(need=("model", *TOKENS, "cached_tokens", "ttft_s", "completed_us")))
def test_value_hist_with_all_columns(trace: Trace) -> None:
    held, _, has = facts(trace)
    models = slow.highlights(held, trace.names("model"))
    assert bins(rows(trace, "value_hist"), "metric", "series") == slow.value_hist(held, has, models)


def test_highlights_are_chosen_or_the_heaviest() -> None:
    trace = build({"arrival_us": [0, 1, 2], "model": ["a", "b", "b"], "input_tokens": [1, 2, 3]})
    assert {row["series"] for row in rows(trace, "value_hist", highlights=("a",))} == {"global", "a"}
    assert {row["series"] for row in rows(trace, "value_hist")} == {"global", "a", "b"}
    with pytest.raises(UsageError, match="Did you mean b"):
        rows(trace, "value_hist", highlights=("bb",))


def test_negative_values_are_counted_and_not_taken_for_zero() -> None:
    columns = {"arrival_us": [0, 1, 2], "input_tokens": [100, 100, 100], "output_tokens": [-5, 0, 7]}
    columns["cached_tokens"] = [-1, 0, 250]
    found = bins(rows(build(columns), "value_hist"), "metric", "series")
    assert found["ot", "global"] == [(0, 0, 1), (6.91830970919, 7.07945784384, 1), (-math.inf, 0, 1)]
    assert found["hit", "global"] == [(0, 0, 2), (1, 1, 1)]
    assert found["hit_pos", "global"] == [(0, 0, 1), (1, 1, 1)]


def test_absent_filter_columns_are_noted() -> None:
    trace = build({"arrival_us": [0], "input_tokens": [5], "output_tokens": [6]})
    _, notes, _ = run_views(trace, ["value_hist"])
    assert notes == [
        "the source has no ttft_s, no completed_us: in value_hist a row filter on them lets every row pass"
    ]


def test_months_and_days_of_the_trace_clock() -> None:
    day = 86_400_000_000
    assert [month_of(d * day) for d in (-1, 0, 30, 31, 58, 59, 365)] == [0, 1, 1, 2, 2, 3, 13]
    assert month_start_us(3) == 59 * day
    clock = np.array([0, day - 1, day, 5 * day, 5 * day + 1], np.int64)
    assert list(day_runs(clock)) == [(0, 0, 2), (1, 2, 3), (5, 3, 5)]
