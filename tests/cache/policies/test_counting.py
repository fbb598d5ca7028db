"""LHD and W-TinyLFU against their plain twins, and what makes them what they are."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.cache.policies import lhd, lru, wtinylfu
from servescope.cache.policies.lhd import SHORTEST, age_bin, reckon
from servescope.cache.random_cases import Case, random_cases
from servescope.cache.requests import Requests, requests_of
from servescope.errors import UsageError
from tests.cache.cases import asked, ran
from tests.reference import learned_caches as reference


def skewed(seed: int, length: int, objects: int) -> Requests:
    """Zipf-like accesses of objects of 1 to 9 tokens."""
    random = np.random.default_rng(seed)
    drawn = np.minimum(random.zipf(1.3, length), objects) - 1
    _, first, inverse = np.unique(drawn, return_index=True, return_inverse=True)
    objects_by_access = np.argsort(np.argsort(first))[inverse]
    sizes = random.integers(1, 10, objects)
    return requests_of(objects_by_access, sizes[objects_by_access], np.zeros(length))


@pytest.mark.parametrize(("window", "protected"), [(0.01, 0.8), (0.3, 0.5), (0.0, 1.0), (1.0, 0.0)])
def test_wtinylfu_admits_as_its_twin(window: float, protected: float) -> None:
    cases = [*random_cases(5, 80), Case(skewed(1, 800, 200), 120, 0)]
    for case in cases:
        hits, _ = ran(wtinylfu, case, window=window, protected=protected)
        assert hits == reference.wtinylfu_hits(asked(case), case.capacity_tokens, window, protected)


@pytest.mark.parametrize("name", ["window", "protected"])
def test_shares_must_be_shares(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        ran(wtinylfu, next(random_cases(1, 1)), **{name: 1.5})


def test_wtinylfu_keeps_frequent_objects_through_a_scan() -> None:
    often, once = np.tile(np.arange(8), 50), np.arange(8, 208)
    objects = np.concatenate([often, once, np.arange(8)])
    case = Case(requests_of(objects, np.ones(len(objects)), np.zeros(len(objects))), 20, 0)
    assert sum(ran(wtinylfu, case)[0][-8:]) == 8
    assert sum(ran(lru, case)[0][-8:]) == 0


def test_lhd_draws_and_reckons_as_its_twin() -> None:
    for case in [*random_cases(6, 100), Case(skewed(2, 6_000, 400), 300, 3)]:
        hits, _ = ran(lhd, case)
        assert hits == reference.lhd_hits(asked(case), case.capacity_tokens, case.seed, SHORTEST)


def test_ages_go_to_eight_bins_an_octave() -> None:
    ages = [*range(1, 300), 10**6, 2**39, 2**50]
    assert [age_bin(age) for age in ages] == [reference.age_bin(age) for age in ages]


def test_densities_are_hits_to_come_by_lifetime_to_come() -> None:
    random = np.random.default_rng(4)
    events = np.zeros((2, reference.CLASSES + 1, reference.BINS))
    events[:, : reference.CLASSES] = random.integers(0, 5, (2, reference.CLASSES, reference.BINS))
    events[:, 3] = 0  # a class that nothing is known of
    hit, ended = events[0, :-1].copy(), events[1, :-1].copy()
    density = np.zeros((reference.CLASSES, reference.BINS))
    reckon(events, density)
    np.testing.assert_allclose(density, reference.densities(hit, ended), rtol=1e-12)
    np.testing.assert_allclose(events[0, :-1], hit * 0.9)


def test_lhd_prefers_to_keep_what_hits_soon() -> None:
    # a short loop that fits among objects that never come back: LRU loses the loop, hit density learns it
    length = 40_000
    loop = np.arange(length) % 2 == 0
    objects = np.where(loop, (np.arange(length) // 2) % 60, 0)
    objects[~loop] = 60 + np.arange((~loop).sum())
    _, first, inverse = np.unique(objects, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[inverse]
    case = Case(requests_of(codes, np.ones(length), np.zeros(length)), 100, 1)
    assert np.mean(ran(lru, case)[0]) == 0.0
    assert np.mean(ran(lhd, case)[0]) > 0.3
