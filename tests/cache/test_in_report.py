"""What a report adds about caches: the numbers of the sweep, and a sample of long traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from servescope.cache import in_report
from servescope.cache.in_report import report_options, report_tables
from servescope.cache.options import options_of
from servescope.cache.result import cache_result
from servescope.errors import UsageError
from servescope.report.charts import draw_all
from servescope.report.saved import saved_of
from servescope.report.summary import summarise
from servescope.views import VIEWS, run_views
from tests.report import block_sample
from tests.traces import build, traces

if TYPE_CHECKING:
    from servescope.trace import Trace

CEILING = ["reuse_ceiling"]


def test_the_tables_are_those_of_the_command_cache_without_times_and_intervals() -> None:
    trace = block_sample.trace()
    views, _, _ = run_views(trace, CEILING)
    tables, notes = report_tables(trace, views, report_options(), threads=1)
    given = {"policy": in_report.POLICIES, "capacity": in_report.CAPACITIES, "unit": "block"}
    whole = cache_result(trace, options=options_of(given), threads=1)
    found = {table.name: table for table in tables}
    assert set(found) == set(whole.tables) - {"policy_differences"}
    for name, table in found.items():
        held = [column for column in whole[name].data.column_names if column != "seconds"]
        assert table.data.equals(whole[name].data.select(held)), name
    assert set(notes) <= set(whole.notes)
    assert set(found) & set(VIEWS) == {"limits"}  # which a report puts together
    again, _ = report_tables(trace, views, report_options(), threads=2)
    assert [table.data for table in again] == [table.data for table in tables]


def test_a_model_gives_bytes() -> None:
    trace = block_sample.trace()
    tables, _ = report_tables(trace, run_views(trace, CEILING)[0], report_options("minimax-m2.5"))
    cells = next(table for table in tables if table.name == "cache").data.to_pylist()
    assert all(row["capacity_bytes"] > 0 for row in cells)
    with pytest.raises(UsageError, match="minimax-m2"):
        report_options("minimax-m2.55")


def test_without_blocks_there_is_nothing_and_a_model_is_said_to_be_unused() -> None:
    trace = build({"arrival_us": [0, 1], "input_tokens": [5, 6]})
    assert report_tables(trace, [], report_options()) == ([], [])
    _, notes = report_tables(trace, [], report_options("minimax-m2.5"))
    assert notes == ["--kv-model minimax-m2.5 is not used: the trace has no prefix blocks"]
    empty = build({"arrival_us": [0, 1], "block_ids": [[], None]})
    views, _, _ = run_views(empty, CEILING)
    assert report_tables(empty, views, report_options()) == ([], [])


@settings(max_examples=40, deadline=None)
@given(trace=traces(need=("block_ids",)))
def test_whatever_the_trace_the_report_goes_on(trace: Trace) -> None:
    views, _, _ = run_views(trace, CEILING)
    tables, notes = report_tables(trace, views, report_options("minimax-m2.5"), threads=1)
    document = {"command": "report", "notes": notes, "meta": {"columns": trace.meta.columns}}
    saved = saved_of({table.name: table for table in tables}, document)
    _, skipped = draw_all(saved)
    assert not [item for item in skipped if "lacks a column" in item.reason]
    assert len(summarise(saved)) >= (11 if saved.has("block_workload") else 10)


def test_long_traces_are_sampled_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = block_sample.trace()
    views, _, _ = run_views(trace, CEILING)
    references = next(row for row in views[0].data.to_pylist() if row["part"] == "whole")["block_references"]
    monkeypatch.setattr(in_report, "MOST_REFERENCES", references // 2)
    tables, notes = report_tables(trace, views, report_options("minimax-m2.5"))
    assert [table.name for table in tables] == ["curve_sample", "curve_sample_about"]
    assert tables[0].data["capacity_bytes"].null_count == 0
    about = tables[1].data.to_pylist()[0]
    assert about["sampled_part"] == pytest.approx(0.5, abs=0.001)
    assert about["block_references"] == references
    assert f"{references:,} block references" in notes[0] and "sample (0.5)" in notes[0]
    monkeypatch.setattr(in_report, "MOST_REFERENCES", references)
    assert len(report_tables(trace, views, report_options())[0]) > 2
