"""Random, TTL and Belady against their plain twins; Belady against exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.cache.policies import belady, random_eviction, ttl
from servescope.cache.policies.counts import EVICTIONS, USED
from servescope.cache.random_cases import Case, random_cases
from servescope.cache.requests import requests_of
from servescope.errors import UsageError
from tests.cache.cases import asked, ran
from tests.reference.caches import belady_hits, best_hits, random_hits, ttl_hits


def test_random_draws_as_its_twin() -> None:
    for case in random_cases(1, 300):
        hits, _ = ran(random_eviction, case)
        assert hits == random_hits(asked(case), case.capacity_tokens, case.seed)


def test_random_depends_on_the_seed() -> None:
    case = Case(requests_of(np.arange(200) % 10, np.ones(200), np.zeros(200)), 5, 1)
    assert ran(random_eviction, case)[0] == ran(random_eviction, case)[0]
    assert ran(random_eviction, case)[0] != ran(random_eviction, Case(*(*_fields(case)[:2], 2)))[0]


def _fields(case: Case) -> tuple[object, ...]:
    return (case.requests, case.capacity_tokens, case.seed)


@pytest.mark.parametrize("ttl_s", [0.0, 1.0, 300.0, 1e9])
def test_ttl_expires_as_its_twin(ttl_s: float) -> None:
    for case in random_cases(2, 200):
        hits, state = ran(ttl, case, ttl_s=ttl_s)
        expected, evictions = ttl_hits(asked(case), case.capacity_tokens, round(ttl_s * 1e6))
        assert hits == expected
        assert state.counts[EVICTIONS] == evictions


def test_an_object_expires_after_its_ttl_not_at_it() -> None:
    times_us = np.array([0, 2_000_000, 4_000_001])
    case = Case(requests_of(np.zeros(3), np.ones(3), times_us), 10, 0)
    hits, state = ran(ttl, case, ttl_s=2.0)
    assert hits == [False, True, False]
    assert state.counts[EVICTIONS] == 1


@pytest.mark.parametrize("ttl_s", [-1.0, float("nan"), float("inf")])
def test_ttl_must_be_a_time(ttl_s: float) -> None:
    with pytest.raises(UsageError, match="ttl_s"):
        ran(ttl, next(random_cases(1, 1)), ttl_s=ttl_s)


def test_belady_does_as_a_full_scan() -> None:
    for case in random_cases(3, 300):
        hits, state = ran(belady, case)
        assert hits == belady_hits(asked(case), case.capacity_tokens)
        assert state.counts[USED] == 0  # at the end nothing has a next access


def test_belady_reaches_the_optimum_when_sizes_are_equal() -> None:
    for case in random_cases(4, 300):
        kept = case.requests.objects[:14] % 5
        _, first, inverse = np.unique(kept, return_index=True, return_inverse=True)
        requests = requests_of(
            np.argsort(np.argsort(first))[inverse], np.full(len(kept), 3), np.zeros(len(kept))
        )
        small = Case(requests, 3 * (1 + case.capacity_tokens % 4), 0)
        hits, _ = ran(belady, small)
        assert sum(hits) == best_hits(asked(small), small.capacity_tokens, lambda _: 1)


def test_belady_says_what_it_cannot_multiply() -> None:
    case = Case(requests_of(np.zeros(2), np.full(2, 1 << 61), np.zeros(2)), 10, 0)
    with pytest.raises(UsageError, match="coarser unit"):
        ran(belady, case)
