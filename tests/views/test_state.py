"""Sketches as files: nothing is lost, and nothing but data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import DataError
from servescope.kernels.run_pieces import pieces
from servescope.kernels.runs import Runs
from servescope.views import VIEWS, ViewOptions, load, state
from servescope.views.hour_cells import Cells, new_cells
from servescope.views.prologue import prologue
from servescope.views.slices import Order, Scan, Slice
from tests.traces import OPTIONAL, traces

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.result import Table
    from servescope.trace import Trace

FREE = sorted({view.name: view for view in map(load, VIEWS) if not view.ordered}.items())


def table_bytes(table: Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.data.schema) as writer:
        writer.write_table(table.data.combine_chunks())
    return sink.getvalue().to_pybytes()


@settings(max_examples=15)
@given(traces(need=OPTIONAL))
def test_every_view_of_the_catalogue_is_stored_without_loss(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace
) -> None:
    path = tmp_path_factory.mktemp("state") / "one.state"
    views = tuple(view for _, view in FREE)
    context = prologue(trace, views, ViewOptions())
    done = Scan(trace, context)(Slice(0, len(trace.parts), views))
    state.write(path, {}, {name: state.take_apart(one) for name, one in done.sketches.items()})
    reader = state.Reader(path)
    for name, sketch in done.sketches.items():
        again = reader.value(name, context)
        twice = load(next(iter(dict(FREE)[name].tables))).new(context)
        twice.merge(reader.value(name, context))
        expected = [table_bytes(table) for table in sketch.tables()]
        assert [table_bytes(table) for table in again.tables()] == expected
        assert [table_bytes(table) for table in twice.tables()] == expected


@settings(max_examples=15)
@given(traces(need=OPTIONAL))
def test_making_tables_leaves_the_arrays_of_a_state_as_they_are(trace: Trace) -> None:
    views = tuple(view for _, view in FREE)
    done = Scan(trace, prologue(trace, views, ViewOptions()))(Slice(0, len(trace.parts), views))
    for sketch in done.sketches.values():
        arrays = state.take_apart(sketch).arrays
        before = [array.tobytes() for array in arrays]
        sketch.tables()
        assert [array.tobytes() for array in arrays] == before


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from([np.int64(-3), np.zeros(0, np.uint16), np.arange(12).reshape(3, 4).T, np.array([True])]),
)  # fmt: skip


@given(st.recursive(leaves, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.integers(), inner))))
def test_values_come_back(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("state") / "one.state"
    state.write(path, {"a": [1, None]}, {"value": state.take_apart((value, {value.__class__.__name__}))})
    reader = state.Reader(path)
    assert reader.header == {"a": [1, None]} and reader.names == {"value"}
    again = reader.value("value")
    assert isinstance(again, tuple) and again[1] == {value.__class__.__name__}
    _same(again[0], value)


def _same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (list, dict)):
        assert len(a) == len(b)
        pairs = zip(a, b, strict=True) if isinstance(a, list) else zip(a.values(), b.values(), strict=True)
        for x, y in pairs:
            _same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    else:
        assert a == b


def test_zeros_at_the_end_take_no_room(tmp_path: Path) -> None:
    path = tmp_path / "one.state"
    room = np.zeros((2 * state.LOOKED_AT, 3))
    some = room.copy()
    some[7, 1] = -0.0  # its sign is not 0
    state.write(path, {}, {"value": state.take_apart([room, some, room[:0]])})
    assert path.stat().st_size < 3 * state.LOOKED_AT < some.nbytes
    again = state.Reader(path).value("value")
    assert [array.tobytes() for array in again] == [array.tobytes() for array in (room, some, room[:0])]
    assert all(array.flags.writeable for array in again)


def test_an_array_held_twice_is_one_array_again() -> None:
    held = np.arange(3)
    first, second = state.put_together(state.take_apart([held, held]), None)
    first[0] = 7
    assert second.tolist() == [7, 1, 2] and held.tolist() == [0, 1, 2]


def test_named_tuples_and_objects_of_the_package() -> None:
    runs = Runs()
    runs.add(np.array([0, 2, 2], np.int32), np.array([5, 6, 7]))
    again, cells = state.put_together(state.take_apart([runs, new_cells(2)]), None)
    assert isinstance(again, Runs) and isinstance(cells, Cells)
    assert [part.tolist() for part in next(pieces(again.compact(), 9))] == [[0, 2, 2], [5, 6, 7], [1, 1, 1]]
    assert state.put_together(state.take_apart(Order(1, 2, 3)), None) == Order(1, 2, 3)


@pytest.mark.parametrize("value", [open, object(), np.array([None]), {1: {2: pytest}}])
def test_other_things_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        state.take_apart(value)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "servescope.files:sha256",
        "servescope.views.state:os",
        "servescope.views.state:np.ndarray",
    ],
)
def test_a_state_can_name_nothing_but_data(name: str) -> None:
    for tree in ({"object": name, "state": []}, {"named": name, "items": []}):
        with pytest.raises(DataError, match="no data of this release"):
            state.put_together(state.State(tree), None)


def test_broken_files_and_other_layouts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.state"
    state.write(path, {}, {"value": state.take_apart(np.arange(100_000))})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"broken state .* without --resume"):
        state.Reader(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="broken state"):
        state.Reader(path)
    monkeypatch.setattr(state, "LAYOUT", 99)
    state.write(path, {}, {})
    monkeypatch.undo()
    with pytest.raises(DataError, match="another layout"):
        state.Reader(path)
