"""The driver: threads, slices, choice of tables, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope import registry
from servescope.errors import DataError, UsageError
from servescope.trace import Origin
from servescope.views import VIEWS, load, run_views
from servescope.views.slices import slices
from tests.traces import OPTIONAL, build, traces
from tests.views.slicing import slices_of

if TYPE_CHECKING:
    from servescope.trace import Trace


def document(trace: Trace, threads: int, rows: int | None = None) -> dict[str, bytes]:
    """Bytes of every table: folded on threads, or merged from slices of at least `rows` rows."""
    with slices_of(rows) as engine:
        tables, _, _ = run_views(trace, threads=threads, **engine)
    found = {}
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.data.schema) as writer:
            writer.write_table(table.data.combine_chunks())
        found[table.name] = sink.getvalue().to_pybytes()
    return found


@settings(max_examples=40)
@given(traces(need=OPTIONAL), st.integers(1, 8), st.integers(1, 4))
def test_any_slicing_and_any_threads_give_the_same_bytes(trace: Trace, rows: int, threads: int) -> None:
    whole = document(trace, 1)
    assert set(whole) == set(VIEWS)
    assert document(trace, threads, rows) == whole
    assert document(trace, threads + 1) == whole


@settings(max_examples=20)
@given(traces(), st.integers(1, 5))
def test_slices_merge_for_any_columns(trace: Trace, rows: int) -> None:
    assert document(trace, 2, rows) == document(trace, 1) == document(trace, 3)


@given(traces(), st.integers(1, 9))
def test_slices_cover_the_parts_once_and_in_order(trace: Trace, rows: int) -> None:
    cut = slices(trace, (), rows)
    assert [one.first for one in cut] == [0, *(one.last for one in cut)][: len(cut)]
    assert cut[-1].last == len(trace.parts)
    sizes = [trace.starts[one.last] - trace.starts[one.first] for one in cut]
    assert sum(sizes) == trace.rows
    assert all(size >= rows for size in sizes[:-1])


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_row_of_the_table_of_views_loads(name: str) -> None:
    view = load(name)
    assert name in view.tables
    assert VIEWS[name] == f"servescope.views.{VIEWS[name].rpartition('.')[2]}"
    assert registry.load("view", VIEWS, name, "VIEW") is view
    assert all(VIEWS[table] == VIEWS[name] for table in view.tables)


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_view_reads_no_more_than_it_says(name: str) -> None:
    columns = {"arrival_us": [0, 3], "block_ids": [[1], None], "request_type": ["a", None]}
    columns |= {name: ["a", None] for name in ("user", "model", "instance")}
    columns |= {name: [3, None] for name in ("input_tokens", "output_tokens", "cached_tokens", "ttft_s")}
    trace = build(columns)
    (table,), _, _ = run_views(trace, [name])
    assert table.name == name
    assert table.doc and table.data.num_columns > 1


def test_unknown_tables_are_named_with_the_closest() -> None:
    with pytest.raises(UsageError, match=r'unknown view "rates".*Did you mean rate'):
        run_views(build({"arrival_us": [0]}), ["rates"])


def test_tables_come_in_the_order_asked_for_and_what_is_left_out_is_noted() -> None:
    trace = build({"arrival_us": [0, 5]})
    tables, notes, timing = run_views(trace, ["rate", "facts", "rate"])
    assert [table.name for table in tables] == ["rate", "facts"]
    assert notes == []
    assert timing["rows"] == 2 and timing["scan_s"] > 0 and timing["peak_rss_bytes"] > 10**6
    _, notes, _ = run_views(trace)
    assert "table user_share is left out: the source has no user" in notes


def test_progress_ends_at_the_total() -> None:
    trace = build({"arrival_us": [0, 5, 9], "block_ids": [[1], [2], None]}, cuts=(1, 2))
    seen: list[tuple[int, int]] = []
    run_views(
        trace, ["facts", "hit_rates"], threads=2, progress=lambda done, total: seen.append((done, total))
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (3, 3) and {total for _, total in seen} == {3}


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_reaches_the_caller(threads: int) -> None:
    trace = build({"arrival_us": [0, 5]})

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_views(trace, ["facts"], threads=threads, progress=stop)


@pytest.mark.parametrize(("arrival", "row"), [([0, 5, 4], 2), ([5, 4, 6], 1), ([-1, 0, 3], 0)])
@pytest.mark.parametrize("cuts", [(), (1, 2)])
@pytest.mark.parametrize("rows", [None, 1, 10**9])
def test_time_that_goes_back_is_refused(
    arrival: list[int], row: int, cuts: tuple[int, ...], rows: int | None
) -> None:
    trace = build({"arrival_us": arrival, "block_ids": [[1]] * 3}, cuts=cuts)
    with slices_of(rows) as engine:
        for name in ("load_hour", "hit_rates"):
            with pytest.raises(DataError, match=f"request {row} arrives before"):
                run_views(trace, [name], threads=2, **engine)


@pytest.mark.parametrize("parent", [-4, 3])
@pytest.mark.parametrize("name", ["type_summary", "block_reuse"])
def test_a_parent_outside_the_trace_is_refused(parent: int, name: str) -> None:
    columns = {"arrival_us": [0, 1, 2], "parent_id": [None, parent, None], "block_ids": [[1]] * 3}
    with pytest.raises(DataError, match=f"parent_id {parent} is no request"):
        run_views(build(columns), [name])


def test_a_clock_before_1970() -> None:
    trace = build(
        {"arrival_us": [0, 3_600_000_000]}, cuts=(1,), origin=Origin("calendar", -7_200_000_000_000)
    )
    (table,), _, _ = run_views(trace, ["load_hour"])
    assert [(row["hour"], row["requests"]) for row in table.rows()] == [(-2, 1), (-1, 1)]
