"""Taking up the state of an earlier run: more rows, a run that was cut short, what does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.trace import Trace
from servescope.views import VIEWS, ViewOptions, load, resume, run_views
from tests.traces import OPTIONAL, build, traces
from tests.views.slicing import slices_of
from tests.views.test_state import table_bytes

if TYPE_CHECKING:
    from pathlib import Path

STATED = tuple(name for name in OPTIONAL if name != "parent_id")  # a parent must lie in the trace
SLICE_ROWS = st.sampled_from([None, 1, 10**9])
FOLDED_IN = (  # of the views that need not begin anew when a trace gets longer, whatever comes
    "facts", "load_hour", "model_day", "month_shape", "shape_cell", "hit_cell", "user_stats", "model_stats",
    "user_share", "limits", "pair_count", "model_gap", "user_month_gap",
)  # fmt: skip


def document(trace: Trace, **running: Any) -> tuple[dict[str, bytes], list[str]]:
    """Bytes of every table, and the notes."""
    tables, notes, _ = run_views(trace, threads=1, **running)
    return {table.name: table_bytes(table) for table in tables}, notes


def head(trace: Trace, parts: int) -> Trace:
    """The trace of the first parts."""
    return Trace(trace.meta, trace.parts[:parts])


@settings(max_examples=40)
@given(traces(need=STATED, most=40), st.data(), SLICE_ROWS, SLICE_ROWS)
def test_more_rows_are_folded_in(
    tmp_path_factory: pytest.TempPathFactory,
    trace: Trace,
    data: st.DataObject,
    rows: int | None,
    later: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("state")
    first = head(trace, data.draw(st.integers(1, len(trace.parts))))
    if first.rows == 0 or "parent_id" in trace.meta.columns:
        return
    with slices_of(rows) as engine:
        document(first, folder=folder, **engine)
    with slices_of(later) as engine:  # the one engine takes up what the other left
        found, _ = document(Trace(trace.meta, trace.parts), folder=folder, resume=True, **engine)
    assert found == document(trace)[0]
    assert set(found) == set(VIEWS)


def long(rows: int, **columns: Any) -> dict[str, Any]:
    """Columns of a trace of a request a minute with several models and users."""
    return {
        "arrival_us": [60_000_000 * i for i in range(rows)],
        "model": [f"m{(i * i) % (2 + i // 10)}" for i in range(rows)],
        "user": [f"u{i % (1 + i // 4)}" for i in range(rows)],
        "input_tokens": [100 + i for i in range(rows)],
        "output_tokens": list(range(rows)),
        **columns,
    }


def test_only_the_new_part_is_read(tmp_path: Path) -> None:
    trace = build(long(60), cuts=(20, 40))
    document(head(trace, 2), folder=tmp_path)
    seen: list[tuple[int, int]] = []
    wanted = [name for name in FOLDED_IN if name in document(trace)[0]]
    document(head(trace, 2), names=wanted, folder=tmp_path)
    found, notes = document(
        trace,
        names=wanted,
        folder=tmp_path,
        resume=True,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(20, 20)]
    assert not [note for note in notes if "from the start" in note]
    assert found == document(trace, names=wanted)[0]


def test_views_that_depend_on_the_whole_trace_begin_anew_and_say_so(tmp_path: Path) -> None:
    columns = long(40, block_ids=[[i, 1] for i in range(40)])
    columns["model"] = ["a"] * 20 + ["b"] * 19 + ["c"]
    trace = build(columns, cuts=(20,))
    document(head(trace, 1), folder=tmp_path)
    found, notes = document(trace, folder=tmp_path, resume=True)
    assert found == document(trace)[0]
    (note,) = [note for note in notes if "from the start" in note]
    assert "value_hist" in note and "hit_rates" in note and "load_hour" not in note


@pytest.mark.parametrize("stop", [1, 3, 5, 8])
def test_a_run_that_was_cut_short_goes_on(tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "KEEP_S", 0.0)
    monkeypatch.setattr(resume, "PAUSES", 0)
    trace = build(long(90), cuts=tuple(range(10, 90, 10)))
    names = [name for name in VIEWS if not load(name).ordered and name in document(trace)[0]]
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == stop and seen[-1] == 10 * stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        document(trace, names=names, folder=tmp_path, progress=progress)
    seen.clear()
    found, notes = document(
        trace, names=names, folder=tmp_path, resume=True, progress=lambda d, t: seen.append(d)
    )
    assert found == document(trace, names=names)[0]
    assert len(seen) == 9 - (stop - 1)
    assert (stop == 1) == any("nothing to resume" in note for note in notes)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_longer_last_part_leaves_the_state_before_it(tmp_path: Path) -> None:
    columns = long(50)
    short = {name: values[:35] for name, values in columns.items()}
    document(build(short, cuts=(10, 20, 30)), folder=tmp_path, names=["load_hour", "user_stats"])
    trace = build(columns, cuts=(10, 20, 30))
    seen: list[int] = []
    found, _ = document(
        trace, names=["load_hour", "user_stats"], folder=tmp_path, resume=True,
        progress=lambda done, total: seen.append(total),
    )  # fmt: skip
    assert seen == [20]
    assert found == document(trace, names=["load_hour", "user_stats"])[0]


def test_states_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = build(long(30), cuts=(10, 20))
    document(trace, folder=tmp_path)
    changed = long(30)
    changed["input_tokens"][3] += 1
    running: dict[str, Any] = {"folder": tmp_path, "resume": True}
    with pytest.raises(UsageError, match=r"from other rows: part 1 of the trace .* Run without --resume"):
        run_views(build(changed, cuts=(10, 20)), **running)
    with pytest.raises(UsageError, match="made from 3 parts, the trace has 1 now"):
        run_views(head(trace, 1), **running)
    with pytest.raises(UsageError, match=r"with options .*windows_s"):
        run_views(trace, options=ViewOptions(windows_s=(5.0,)), **running)
    with pytest.raises(UsageError, match="with columns"):
        run_views(build({**long(30), "endpoint": ["chat"] * 30}, cuts=(10, 20)), **running)
    monkeypatch.setattr(resume, "VERSION", "99")
    with pytest.raises(UsageError, match="with release"):
        run_views(trace, **running)
    before = sorted(path.name for path in tmp_path.iterdir())
    run_views(trace, folder=tmp_path)  # without --resume everything is scanned anew
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    run_views(trace, **running)


def test_more_tables_than_before(tmp_path: Path) -> None:
    trace = build(long(30), cuts=(10, 20))
    document(head(trace, 2), names=["load_hour"], folder=tmp_path)
    found, notes = document(
        trace, names=["load_hour", "user_stats", "value_hist"], folder=tmp_path, resume=True
    )
    assert found == document(trace, names=["load_hour", "user_stats", "value_hist"])[0]
    assert any("user_stats" in note and "load_hour" not in note for note in notes)
