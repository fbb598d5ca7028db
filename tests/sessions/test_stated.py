"""Stated sessions against plain Python, and the shared cases."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from servescope.errors import DataError
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.sessions.stated import stated_sessions
from tests.reference import stated as slow
from tests.reference.histogram import log_rows, quantile
from tests.shared import CASES, needs_cases
from tests.traces import build, rows_of, traces

if TYPE_CHECKING:
    from servescope.trace import Trace

NEED = ("session_id", "parent_id", "turn", "input_tokens", "output_tokens", "completed_us")


def made(trace: Trace) -> dict[str, list[dict[str, Any]]]:
    return {table.name: table.rows() for table in stated_sessions(trace)[0]}


def case(name: str, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    tables, notes = stated_sessions(read_trace([str(CASES / name)], ReadOptions(**options)))
    return {table.name: table.rows() for table in tables}, notes


def bins(found: list[dict[str, Any]]) -> list[tuple[float, float, int]]:
    return [(float(f"{r['bin_low']:.12g}"), float(f"{r['bin_high']:.12g}"), r["count"]) for r in found]


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9)


@given(traces(need=NEED))
def test_sessions_and_turns(trace: Trace) -> None:
    found = made(trace)
    expected = slow.sessions(rows_of(trace))
    turns = expected.pop("turns")
    (summary,) = found["session_summary"]
    assert {name: summary[name] for name in expected} == expected
    assert [(row["turns"], row["sessions"]) for row in found["turns"]] == turns
    lengths = [length for length, count in turns for _ in range(count)]
    assert summary["turns_max"] == max(lengths, default=None)
    assert summary["turns_mean"] == (close(statistics.fmean(lengths)) if lengths else None)
    for name, q in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert summary[f"turns_{name}"] == close(quantile(lengths, q))


@given(traces(need=NEED))
def test_think_times_and_start_gaps(trace: Trace) -> None:
    found = made(trace)
    stats = {row["metric"]: row for row in found["turn_gap_stats"]}
    for metric, gaps in slow.gaps(rows_of(trace)).items():
        known = [gap for gap in gaps if gap is not None]
        waited = [gap / 1e6 for gap in known if gap >= 0]
        row = stats[metric]
        assert (row["follow_ups"], row["n"]) == (len(gaps), len(waited))
        assert (row["overlapping"], row["unknown"]) == (len(known) - len(waited), len(gaps) - len(known))
        assert row["mean_s"] == (close(statistics.fmean(waited)) if waited else None)
        assert row["p90_s"] == close(quantile(waited, 0.9))
        assert bins(found[metric]) == log_rows(waited)


@given(traces(need=NEED))
def test_growth(trace: Trace) -> None:
    found = made(trace)
    expected = slow.growth(rows_of(trace))
    new = expected.pop("new")
    (row,) = found["growth"]
    known = any(r["input_tokens"] is not None for r in rows_of(trace))
    expected["new_tokens"] = expected["new_tokens"] if known else None
    assert {name: row[name] for name in expected} == expected
    assert row["new_p50"] == close(quantile(new, 0.5))
    assert bins(found["new_tokens"]) == log_rows(new)


def test_what_the_source_does_not_state_is_left_out_with_a_note() -> None:
    assert stated_sessions(build({"arrival_us": [0]})) == (
        [],
        ["sessions are left out: the source does not state them"],
    )
    tables, notes = stated_sessions(build({"arrival_us": [0, 1], "session_id": [0, 0]}))
    assert [table.name for table in tables] == ["session_summary", "turns"]
    assert notes == ["think times and growth are left out: the source does not state parents"]


@needs_cases
def test_26_input_holds_the_history() -> None:
    found, _ = case("26-cumulative-turns.jsonl")
    (growth,) = found["growth"]
    assert (growth["input_tokens"], growth["new_tokens"], growth["new_p50"]) == (194, 72, 16)
    assert found["turns"] == [{"turns": 3, "sessions": 1}]


@needs_cases
def test_27_branches_orphans_and_shortened_history() -> None:
    found, notes = case("27-orphan-parent.jsonl", on_bad_row="skip")
    (summary,) = found["session_summary"]
    assert (summary["sessions"], summary["requests"], summary["cut_at_start_sessions"]) == (2, 5, 1)
    assert (summary["branching_parents"], summary["branches"], summary["stated_turn_max"]) == (1, 1, 4)
    (growth,) = found["growth"]
    assert (growth["shortened"], growth["unknown"], growth["new_known"]) == (1, 1, 3)
    assert notes == ["1 follow-up with a shortened history: no new tokens computed"]


@needs_cases
def test_29_think_time_is_end_to_start() -> None:
    found, notes = case("29-think-time.csv")
    think, start = found["turn_gap_stats"]
    assert (think["n"], think["overlapping"], think["unknown"], think["mean_s"]) == (1, 1, 0, 6.0)
    assert (start["n"], start["mean_s"]) == (2, 6.0)
    assert notes == ["1 overlapping turn: sent before the parent's answer ended"]
    (summary,) = found["session_summary"]
    assert (summary["sessions"], summary["requests_without_session"]) == (1, 2)


def test_a_parent_outside_the_trace_is_refused() -> None:
    columns = {"arrival_us": [0, 1], "session_id": [0, 0], "parent_id": [None, 7]}
    with pytest.raises(DataError, match="parent_id 7 is no request of this trace"):
        stated_sessions(build(columns))
