"""Histograms of many keys against plain dicts."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.histogram import LOG_BINS
from servescope.kernels.paged import Paged, between
from servescope.kernels.pages import EARLY, PAGE_BINS
from tests.reference.paged import SlowPaged

KEYS = 7
Values = list[tuple[int, int]]
BINS = st.one_of(st.integers(0, LOG_BINS - 1), st.integers(900, 940))
VALUES = st.lists(st.tuples(st.integers(0, KEYS - 1), BINS), max_size=300)
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)


def paged(values: Values) -> Paged:
    held = Paged(KEYS)
    held.add(np.array([k for k, _ in values], np.int64), np.array([b for _, b in values], np.int64))
    return held


def slow(values: Values) -> SlowPaged:
    held = SlowPaged()
    held.add([k for k, _ in values], [b for _, b in values])
    return held


def check(held: Paged, twin: SlowPaged) -> None:
    filled = [(k, b, n) for k in range(KEYS) for b, n in sorted(twin.held[k].items())]
    assert list(zip(*(part.tolist() for part in held.entries()), strict=True)) == filled
    keys, totals, bins = held.ranked((0.5,), least=10)
    assert keys.tolist() == [k for k in range(KEYS) if twin.total(k) >= 10]
    assert totals.tolist() == [twin.total(k) for k in keys.tolist()]
    medians = [twin.quantile(k, 0.5, True) for k in keys.tolist()]
    assert between(totals, bins, (0.5,), whole=True)[:, 0].tolist() == medians
    assert held.totals().tolist() == [twin.total(key) for key in range(KEYS)]
    for whole in (False, True):
        found = held.quantiles(QUANTILES, whole=whole)
        for key in range(KEYS):
            for q, value in zip(QUANTILES, found[key].tolist(), strict=True):
                expected = twin.quantile(key, q, whole)
                assert math.isnan(value) if expected is None else value == expected


@given(VALUES)
def test_totals_and_quantiles(values: Values) -> None:
    check(paged(values), slow(values))


@given(VALUES, VALUES, VALUES)
def test_merging_adds(first: Values, second: Values, third: Values) -> None:
    held = paged(first)
    held.merge(paged(second))
    held.merge(paged(third))
    check(held, slow(first + second + third))


def test_one_value_in_every_bin_of_every_key() -> None:
    values = [(key, place) for key in range(KEYS) for place in range(LOG_BINS)]
    held = paged(values)
    check(held, slow(values))
    assert held.pages == KEYS * math.ceil(LOG_BINS / PAGE_BINS)


def test_few_values_take_no_pages() -> None:
    held = paged([(2, 100 * at) for at in range(EARLY)])
    assert held.pages == 0
    held.add(np.array([2]), np.array([0]))
    assert held.pages == EARLY


def test_counts_above_32_bits_are_carried() -> None:
    held = paged([(3, 1000)] * 40 + [(3, 1001)])
    other = paged([(3, 1000)] * 50)
    for one in (held, other):
        one.store.counts[one.store.counts > 1] = 2**32 - 1
    other.merge(held)
    assert other.totals()[3] == 2 * (2**32 - 1) + 1
    other.add(np.full(5, 3), np.full(5, 1000))
    assert other.totals()[3] == 2 * (2**32 - 1) + 6
    low, high = other.quantiles((0.0, 1.0))[3]
    assert low < high and other.quantiles((0.999999999,))[3, 0] == low
    third = paged([])
    third.merge(other)
    third.merge(other)
    assert third.totals()[3] == 2 * (2 * (2**32 - 1) + 6)


def test_more_keys_can_come() -> None:
    held = Paged()
    assert held.totals().tolist() == [] and held.quantiles((0.5,)).shape == (0, 1)
    held.reach(2)
    held.add(np.array([1]), np.array([5]))
    later = Paged(4)
    later.add(np.array([3]), np.array([5]))
    held.merge(later)
    assert held.totals().tolist() == [0, 1, 0, 1]
