"""`rate`, `arrival_stats`, `type_summary`, `type_share` and the length tables against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.trace import Origin, Trace
from servescope.views import ViewOptions, run_views
from tests.reference import traffic as slow
from tests.traces import build, rows_of, traces

NEED = ("request_type", "input_tokens", "output_tokens", "cached_tokens", "status")
COLUMN = {"input": "input_tokens", "output": "output_tokens", "cached": "cached_tokens"}


def made(
    trace: Trace, *names: str, windows_s: tuple[float, ...] = (10, 300)
) -> dict[str, list[dict[str, Any]]]:
    tables, _, _ = run_views(trace, names, threads=1, options=ViewOptions(windows_s))
    return {table.name: table.rows() for table in tables}


def last_us(trace: Trace) -> int:
    return max(row["arrival_us"] for row in rows_of(trace))


@given(traces(need=("request_type", "input_tokens", "output_tokens")), st.sampled_from([0.5, 10, 300, 3600]))
def test_rate_counts_every_window_of_every_scope(trace: Trace, window_s: float) -> None:
    us = int(window_s * 1e6)
    if last_us(trace) // us > 20_000:
        return
    found = made(trace, "rate", windows_s=(window_s,))["rate"]
    keys = ("request_type", "start_s", "requests", "input_tokens", "output_tokens", "complete")
    expected = slow.rate(rows_of(trace), trace.names("request_type"), last_us(trace), us)
    assert [tuple(row[key] for key in keys) for row in found] == [(t, s / 1e6, *x) for t, s, *x in expected]
    assert {row["window_s"] for row in found} == {window_s}


@given(traces(need=NEED))
def test_arrival_stats(trace: Trace) -> None:
    rows, last = rows_of(trace), last_us(trace)
    for (text, own), found in zip(
        slow.scopes(rows, trace.names("request_type")),
        made(trace, "arrival_stats")["arrival_stats"],
        strict=True,
    ):
        assert found["request_type"] == text
        span = (own[-1]["arrival_us"] - own[0]["arrival_us"]) / 1e6
        whole = (last // 10_000_000 + 1) * 10
        assert (found["span_s"], found["window_s"], found["windows_span_s"]) == (span, 10, whole)
        assert found["requests_per_s_over_span"] == (pytest.approx(len(own) / span) if span else None)
        assert found["requests_per_s_over_windows"] == pytest.approx(len(own) / whole)
        for name, value in slow.arrivals(own, last).items():
            error = 0.024 if "p50" in name else 1e-9
            assert found[name] == (None if value is None else pytest.approx(value, rel=error)), name


@given(traces(need=NEED))
def test_length_tables(trace: Trace) -> None:
    tables = made(trace, "length_stats", "length_ccdf")
    stats = iter(tables["length_stats"])
    for text, own in slow.scopes(rows_of(trace), trace.names("request_type")):
        for metric, column in COLUMN.items():
            found = next(stats)
            expected = slow.lengths(own, column, leave_out_failed=metric == "output")
            bins = [
                (float(f"{r['bin_low']:.12g}"), float(f"{r['bin_high']:.12g}"), r["count"])
                for r in tables["length_ccdf"]
                if (r["request_type"], r["metric"]) == (text, metric)
            ]
            assert bins == (expected.pop("bins") if metric != "cached" else [])
            expected.pop("bins", None)
            assert (found["request_type"], found["metric"]) == (text, metric)
            for name, value in expected.items():
                error = 0.024 if name.startswith("p") else 1e-12
                assert found[name] == (None if value is None else pytest.approx(value, rel=error)), name
    assert next(stats, None) is None


@given(traces(need=(*NEED, "parent_id", "turn")))
def test_type_summary(trace: Trace) -> None:
    rows, last = rows_of(trace), last_us(trace)
    span = (last // 10_000_000 + 1) * 10
    summary = made(trace, "type_summary")["type_summary"]
    for (text, own), found in zip(slow.scopes(rows, trace.names("request_type")), summary, strict=True):
        means = [len(held) / 300 for held in slow.windows(own, last, 300_000_000)]
        arrivals = slow.arrivals(own, last)
        turns = [row["turn"] for row in own if row["turn"] is not None]
        lengths = {
            m: slow.lengths(own, COLUMN[m], leave_out_failed=m == "output") for m in ("input", "output")
        }
        expected = {
            "request_type": text,
            "requests": len(own),
            "requests_per_s": len(own) / span,
            "peak_10s_per_s": arrivals["peak_10s_per_s"],
            "mean_300s_min_per_s": min(means),
            "mean_300s_max_per_s": max(means),
            "peak_to_mean": arrivals["peak_to_mean"],
            "iat_p50_s": arrivals["iat_p50_s"],
            "iat_cv": arrivals["iat_cv_population"],
            **{f"{m}_{p}": lengths[m][p] for m in lengths for p in ("p50", "p99")},
            "input_tokens_per_s": slow.total(own, "input_tokens") / span,
            "output_tokens_per_s": slow.total(own, "output_tokens") / span,
            "multi_turn_fraction": slow.multi_turn(rows, own),
            "turns_max": max(turns, default=None),
        }
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            error = 0.024 if "p50" in name or "p99" in name else 1e-9
            close = pytest.approx(value, rel=error) if isinstance(value, float | int) else value
            assert found[name] == close, name


@given(traces(need=("request_type", "input_tokens", "output_tokens")))
def test_type_share(trace: Trace) -> None:
    rows = rows_of(trace)
    found = made(trace, "type_share")["type_share"]
    texts = {row["request_type"] for row in rows}
    assert {row["request_type"] for row in found} == texts
    assert [row["requests"] for row in found] == sorted((row["requests"] for row in found), reverse=True)
    for row in found:
        own = [r for r in rows if r["request_type"] == row["request_type"]]
        assert row["requests"] == len(own)
        assert row["request_share"] == pytest.approx(len(own) / len(rows))
        for name in ("input", "output"):
            part, whole = (slow.total(r, f"{name}_tokens") for r in (own, rows))
            assert row[f"{name}_tokens"] == part
            assert row[f"{name}_share"] == (pytest.approx(part / whole) if whole else None)


@given(
    st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**33)), min_size=1, max_size=20), st.integers(1, 9)
)
def test_gaps_of_any_length_in_any_batches(gaps: list[int], rows: int) -> None:
    arrivals = np.cumsum(gaps).tolist()
    plain = {"arrival_us": arrivals, "input_tokens": [n % 7 or None for n in arrivals]}
    whole = build(plain, cuts=tuple(range(rows, len(arrivals), rows)))
    typed = build({**plain, "request_type": ["a"] * len(arrivals)})
    (found,) = made(whole, "arrival_stats")["arrival_stats"]
    for name, value in slow.arrivals(rows_of(whole), arrivals[-1]).items():
        error = 0.024 if "p50" in name else 1e-12
        assert found[name] == (None if value is None else pytest.approx(value, rel=error)), name
    _, other = made(typed, "arrival_stats")["arrival_stats"]
    assert {**found, "request_type": "a"} == other
    for name in ("rate", "length_stats"):
        mine, others = (made(trace, name, windows_s=(3600,))[name] for trace in (whole, typed))
        assert mine == [row for row in others if row["request_type"] == "*"]


def test_a_source_without_types_has_one_scope_and_null_where_nothing_is_known() -> None:
    trace = build({"arrival_us": [0, 5_000_000], "input_tokens": [3, None]})
    tables = made(trace, "rate", "type_summary", "length_stats", "length_ccdf")
    assert [(r["request_type"], r["window_s"], r["output_tokens"]) for r in tables["rate"]] == [
        ("*", 10, None),
        ("*", 300, None),
    ]
    (summary,) = tables["type_summary"]
    nulls = ("output_p50", "output_p99", "output_tokens_per_s", "multi_turn_fraction", "turns_max")
    assert [summary[name] for name in nulls] == [None] * 5
    assert [row["metric"] for row in tables["length_stats"]] == ["input"]
    assert {row["metric"] for row in tables["length_ccdf"]} == {"input"}


def test_a_source_without_times_keeps_its_lengths_and_gets_no_rates() -> None:
    trace = build({"arrival_us": [0, 0], "input_tokens": [3, 4]}, origin=Origin("none"))
    tables, notes, _ = run_views(trace)
    names = {table.name for table in tables}
    assert "length_stats" in names and not names & {"rate", "arrival_stats", "load_hour", "month_shape"}
    assert "table rate is left out: the source has no arrival times" in notes
    (summary,) = made(trace, "type_summary")["type_summary"]
    assert summary["input_p50"] == 3.5
    timed = ("requests_per_s", "peak_10s_per_s", "mean_300s_min_per_s", "iat_p50_s", "input_tokens_per_s")
    assert [summary[name] for name in timed] == [None] * 5
    with pytest.raises(UsageError, match="no arrival times"):
        run_views(trace, ["rate"])


@pytest.mark.parametrize("windows_s", [(), (0,), (-1.0,), (float("nan"),), (1e-9,), (10, 0)])
def test_a_window_needs_a_length(windows_s: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="a window is a number of seconds"):
        made(build({"arrival_us": [0]}), "rate", windows_s=windows_s)


def test_windows_beyond_memory_are_left_out_with_a_note() -> None:
    trace = build({"arrival_us": [0, 10**15]})
    tables, notes, _ = run_views(trace, ["rate", "type_summary", "arrival_stats"])
    found = {table.name: table.rows() for table in tables if table.name != "rate"}
    assert tables[0].data["window_s"].unique().to_pylist() == [300.0]
    assert any(note.startswith("windows of 10 s are left out") for note in notes)
    assert found["arrival_stats"][0]["peak_10s_per_s"] is None
    assert found["type_summary"][0]["mean_300s_max_per_s"] == pytest.approx(1 / 300)
