"""Words of bytes against Python's own bytes."""

from __future__ import annotations

import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.jit import kernel
from servescope.kernels.words import hash_bytes, lowest_bit, same_bytes, word_at

BYTES = st.binary(max_size=40)


@kernel
def _word(data: np.ndarray, at: int) -> np.uint64:
    return word_at(data, at)


@kernel
def _same(held: np.ndarray, begin: int, end: int, data: np.ndarray, low: int, high: int) -> bool:
    return same_bytes(held, begin, end, data, low, high)


@kernel
def _hash(data: np.ndarray, low: int, high: int) -> np.uint64:
    return hash_bytes(data, low, high)


@kernel
def _lowest(word: np.uint64) -> int:
    return lowest_bit(word)


def _array(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, np.uint8)


@given(st.binary(min_size=8, max_size=30), st.integers(0, 22))
def test_eight_bytes_from_any_place(raw: bytes, at: int) -> None:
    at = min(at, len(raw) - 8)
    assert int(_word(_array(raw), at)) == int.from_bytes(raw[at : at + 8], sys.byteorder)


@given(BYTES, BYTES, BYTES, BYTES)
def test_equal_bytes_are_the_same_and_hash_alike(lead: bytes, a: bytes, b: bytes, tail: bytes) -> None:
    left, right = _array(a + lead + tail), _array(lead + b)
    spans = (0, len(a)), (len(lead), len(lead) + len(b))
    assert _same(left, *spans[0], right, *spans[1]) == (a == b)
    again = _array(lead + a)
    assert _same(left, *spans[0], again, len(lead), len(again))
    assert _hash(left, *spans[0]) == _hash(again, len(lead), len(again))


@given(st.binary(min_size=1, max_size=40), st.data())
def test_one_changed_byte_is_noticed(raw: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(raw) - 1))
    other = bytearray(raw)
    other[at] ^= data.draw(st.integers(1, 255))
    assert not _same(_array(raw), 0, len(raw), _array(bytes(other)), 0, len(raw))


@given(st.integers(1, 2**64 - 1))
def test_lowest_bit(word: int) -> None:
    assert _lowest(np.uint64(word)) == (word & -word).bit_length() - 1
