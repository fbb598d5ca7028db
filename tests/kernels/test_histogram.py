"""Bins and quantiles against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import histogram as h
from tests.reference import histogram as slow

WHOLE = st.one_of(st.integers(0, 200), st.integers(0, 2**31 - 1))


def bins(values: list[float]) -> h.Bins:
    return h.filled(h.log_bins(np.array(values, np.float64)))


@given(st.lists(WHOLE, max_size=30))
def test_whole_numbers_fall_where_big_integers_say(values: list[int]) -> None:
    found = [(float(f"{a:.12g}"), float(f"{b:.12g}"), c) for a, b, c in zip(*bins(values), strict=True)]
    assert found == slow.log_rows(values)


def test_every_whole_number_at_an_edge() -> None:
    for k in range(930):
        first = math.isqrt(10**k) if k == 0 else round(10 ** (k / 100))
        for value in range(max(1, first - 1), first + 2):
            assert h.log_bin(float(value)) == slow.log_bin(value) - h.LOW_DECADE * 100 + 1


@given(st.integers(1, 10**14))
def test_microseconds_as_seconds_are_binned_exactly(us: int) -> None:
    exact = Fraction(us, 10**6) ** 100
    low = h.log_bin(us / 1e6) - 1 + h.LOW_DECADE * 100
    assert Fraction(10) ** low <= exact < Fraction(10) ** (low + 1)


def test_edges_are_the_nearest_doubles_and_left_closed() -> None:
    assert len(h.EDGES) == h.LOG_BINS
    assert h.EDGES[1200] == 1.0 and h.EDGES[1300] == 10.0 and h.EDGES[600] == 1e-6
    assert np.all(np.diff(h.EDGES) > 0)
    for at in range(h.LOG_BINS - 1):
        assert h.log_bin(h.EDGES[at]) == at + 1
        assert h.log_bin(np.nextafter(h.EDGES[at + 1], 0.0)) == at + 1


@pytest.mark.parametrize(
    ("value", "index"),
    [(0.0, 0), (-3.0, 0), (math.nan, 0), (math.inf, h.LOG_BINS - 1), (1e300, h.LOG_BINS - 1), (1e-300, 1)],
)
def test_values_outside_the_edges(value: float, index: int) -> None:
    assert h.log_bin(value) == index


@given(st.integers(0, 3000), st.integers(1, 3000))
def test_ratios_by_whole_numbers_are_exact(part: int, whole: int) -> None:
    counts = np.zeros(h.RATIO_BINS, np.int64)
    counts[h.whole_ratio_bin(part, whole)] = 1
    assert list(zip(*h.filled(counts), strict=True)) == slow.ratio_rows([Fraction(part, whole)])


def test_ratios_by_floats() -> None:
    found = [
        h.ratio_bin(x) for x in (-1.0, 0.0, 1e-9, 0.0005, 0.001, 0.9999999, math.nextafter(1, 0), 1.0, 7.0)
    ]
    assert found == [0, 0, 1, 1, 2, 1000, 1000, 1001, 1001]


@given(st.lists(WHOLE, min_size=1, max_size=40), st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_within_the_stated_error(values: list[int], q: float) -> None:
    counts = h.log_bins(np.array(values, np.float64))
    exact = slow.quantile(values, q)
    assert exact is not None
    for whole in (True, False):
        assert h.quantile(counts, q, whole=whole) == pytest.approx(exact, rel=0.024, abs=1e-9)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.sampled_from([0.1, 0.5, 0.9]))
def test_quantiles_of_small_whole_numbers_are_exact(values: list[int], q: float) -> None:
    counts = h.log_bins(np.array(values, np.float64))
    assert h.quantile(counts, q, whole=True) == pytest.approx(slow.quantile(values, q), rel=1e-12)


def test_quantile_of_nothing_and_known_extremes() -> None:
    counts = np.zeros(h.LOG_BINS, np.int64)
    assert h.quantile(counts, 0.5) is None
    counts[h.log_bin(1000.0)] = 1
    assert h.quantile(counts, 0.5, low=1000.0, high=1000.0) == 1000.0
