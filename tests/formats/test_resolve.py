"""Sessions from stated parents and ids agree with their slow twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema
from servescope.formats import resolve
from servescope.ledger import Ledger
from tests.reference import sessions

NULL = schema.NULL_INT64


def as_array(values: list[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([NULL if value is None else value for value in values], np.int64)


def as_list(array: Any, null: int = NULL) -> list[int | None]:
    return [None if value == null else value for value in array.tolist()]


def as_texts(values: list[int | None]) -> pa.Array:
    return pa.array([None if value is None else f"k{value}" for value in values], pa.string())


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int | None]]:
    """Distinct ids, and for each row the id of an earlier row, of nobody, or none."""
    own = draw(st.lists(st.integers(-5, 50), unique=True, max_size=20))
    absent = st.integers(100, 103)
    choices = [st.none() | absent | (st.sampled_from(own[:i]) if i else st.none()) for i in range(len(own))]
    return own, [draw(choice) for choice in choices]


@given(forests())
def test_stated_parents(forest: tuple[list[int], list[int | None]]) -> None:
    own, wanted = forest
    expected = sessions.parents(list(own), wanted)
    orphans = [i for i, key in enumerate(wanted) if key is not None and expected[i] is None]
    for keys, names in ((as_array(list(own)), as_array(wanted)), (as_texts(list(own)), as_texts(wanted))):
        columns: dict[str, Any] = {}
        ledger = Ledger()
        resolve.from_parents(columns, keys, names, np.arange(len(own)) + 1, ledger)
        assert as_list(columns["parent_id"]) == expected
        assert columns["session_id"].tolist() == sessions.roots(expected)
        if orphans:
            note = ledger.notes["orphan_parent"]
            assert (note.count, note.lines) == (len(orphans), [i + 1 for i in orphans[:5]])
        else:
            assert ledger.notes == {}


@given(st.lists(st.none() | st.integers(0, 4), max_size=25), st.booleans())
def test_stated_sessions(keys: list[int | None], numbers: bool) -> None:
    columns: dict[str, Any] = {}
    names = resolve.from_sessions(columns, as_array(keys) if numbers else as_texts(keys), parents=False)
    first = list(dict.fromkeys(key for key in keys if key is not None))
    previous, turn = sessions.turns([None if key is None else str(key) for key in keys])
    assert as_list(columns["session_id"]) == [None if key is None else first.index(key) for key in keys]
    assert as_list(columns["parent_id"]) == previous
    assert as_list(columns["turn"], schema.NULL_INT32) == turn
    assert names == ([] if numbers else [f"k{key}" for key in first])


def test_stated_turns_and_parents_stay() -> None:
    columns: dict[str, Any] = {"turn": np.array([7, 9], np.int32), "parent_id": np.array([NULL, NULL])}
    resolve.from_sessions(columns, as_array([1, 1]), parents=True)
    assert columns["turn"].tolist() == [7, 9]
    assert columns["parent_id"].tolist() == [NULL, NULL]
    assert columns["session_id"].tolist() == [0, 0]


@given(
    st.lists(st.none() | st.integers(0, 6), max_size=20), st.lists(st.none() | st.integers(0, 9), max_size=20)
)
def test_match(own: list[int | None], wanted: list[int | None]) -> None:
    expected = [
        -1 if key is None else -2 if index is None else index
        for key, index in zip(wanted, sessions.parents(own, wanted), strict=True)
    ]
    assert resolve.match(as_array(own), as_array(wanted)).tolist() == expected
    assert resolve.match(as_texts(own), as_texts(wanted)).tolist() == expected
