"""Sums of squares in two words against Python's integers."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import moments

VALUES = st.lists(st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 10**6)), max_size=20)


def squares(values: list[int]) -> np.ndarray:
    words = np.zeros(2, np.uint64)
    for value in values:
        moments.add_square(words, value)
    return words


@given(VALUES, VALUES)
def test_words_hold_the_exact_sum(first: list[int], second: list[int]) -> None:
    # three squares of 63 bits still fit into 128 bits; the real sums stay far below
    first, second = first[:2], second[:1]
    words = squares(first)
    moments.added(words, squares(second))
    assert moments.as_int(words) == sum(v * v for v in first + second)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=20))
def test_deviation_and_variation(values: list[int]) -> None:
    n, total, sums = len(values), sum(values), moments.as_int(squares(values))
    assert moments.deviation(n, total, sums) == pytest.approx(statistics.pstdev(values), rel=1e-9)
    assert moments.deviation(n, total, sums, sample=True) == pytest.approx(statistics.stdev(values), rel=1e-9)
    if total:
        expected = statistics.pstdev(values) / statistics.mean(values)
        assert moments.variation(n, total, sums) == pytest.approx(expected, rel=1e-9)


def test_undefined() -> None:
    assert moments.deviation(0, 0, 0) is None
    assert moments.deviation(1, 5, 25) == 0.0
    assert moments.deviation(1, 5, 25, sample=True) is None
    assert moments.variation(3, 0, 0) is None
