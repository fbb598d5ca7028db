"""Values beside a bitmap against lists with None in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.nulls import counted, fill, filled, looked_up, mapped, narrowed, tally
from servescope.schema import array_values, known_bits

NULL = -7


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64()])
@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=40),
    stretch=st.integers(1, 12),
    cut=st.integers(0, 20),
)
def test_nulls_become_the_sentinel(
    kind: pa.DataType, values: list[int | None], stretch: int, cut: int
) -> None:
    rows = [value for value in values for _ in range(stretch)]  # runs of whole bytes too
    array = pa.array(rows, kind).slice(cut)
    bits = known_bits(array)
    held = array_values(array, np.dtype(kind.to_pandas_dtype()))
    assert (bits is not None) == (None in rows[cut:])
    before = held.tolist()
    found = held if bits is None else filled(held, bits, array.offset, NULL)
    wanted = [NULL if value is None else value for value in rows[cut:]]
    assert found.tolist() == wanted and held.tolist() == before
    if bits is not None:
        own = held.copy()
        fill(own, bits, array.offset, NULL)
        assert own.tolist() == wanted


@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=60), st.integers(0, 20))
def test_indices_are_looked_up_and_counted(indices: list[int | None], cut: int) -> None:
    mapping = np.array([30, 10, 50, 20, 40, NULL], np.int32)
    array = pa.array(indices, pa.int32()).slice(cut)
    held: tuple[Any, ...] = (array_values(array, np.dtype(np.uint32)), known_bits(array), array.offset)
    wanted = indices[cut:]
    assert mapped(*held, mapping).tolist() == [mapping[-1 if i is None else i] for i in wanted]
    assert counted(*held, 5).tolist() == [wanted.count(code) for code in range(5)]


WIDE = st.one_of(
    st.none(), st.integers(-(2**31), 2**31 - 1), st.sampled_from([2**31, -(2**31) - 1, 2**63 - 1])
)


@given(st.lists(WIDE, max_size=40), st.integers(0, 20))
def test_whole_numbers_are_narrowed_where_all_fit(values: list[int | None], cut: int) -> None:
    array = pa.array(values, pa.int64()).slice(cut)
    held = array_values(array, np.dtype(np.int64))
    found = narrowed(held, known_bits(array), array.offset, NULL)
    wanted = values[cut:]
    if all(value is None or -(2**31) <= value < 2**31 for value in wanted):
        assert found is not None and found.dtype == np.int32
        assert found.tolist() == [NULL if value is None else value for value in wanted]
    else:
        assert found is None


def test_what_stands_under_a_null_need_not_fit() -> None:
    held = np.array([1, 2**40, 3])
    found = narrowed(held, np.array([0b101], np.uint8), 0, NULL)
    assert found is not None and found.tolist() == [1, NULL, 3]


@given(st.lists(st.integers(-1, 3), max_size=40))
def test_values_are_looked_up_by_code(codes: list[int]) -> None:
    values = np.array([30, 10, 50, 20, NULL], np.int32)
    assert looked_up(values, np.array(codes, np.int32)).tolist() == [values[code] for code in codes]


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 9)), max_size=20))
def test_counts_are_added_by_code(pairs: list[tuple[int, int]]) -> None:
    rows = np.arange(4)
    codes, counts = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    tally(rows, codes.astype(np.int32), counts.astype(np.int64))
    assert rows.tolist() == [c + sum(more for code, more in pairs if code == c) for c in range(4)]
