"""What holds for every object policy, whatever it evicts."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from servescope.cache.outside import load_outside
from servescope.cache.policies import OBJECT_POLICIES
from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED
from servescope.cache.random_cases import Case
from servescope.cache.requests import requests_of
from tests.cache.cases import ran
from tests.cache.test_outside import OURS


@pytest.fixture(params=[*OBJECT_POLICIES, f"{OURS}:Oldest"], ids=[*OBJECT_POLICIES, "outside"])
def policy(request: pytest.FixtureRequest) -> Any:
    name: str = request.param
    if name == "lrb":
        pytest.importorskip("lightgbm")
    return import_module(OBJECT_POLICIES[name]) if name in OBJECT_POLICIES else load_outside(name)


def case(objects: list[int], sizes: list[int], capacity_tokens: int = 100) -> Case:
    count = len(objects)
    return Case(requests_of(np.array(objects), np.array(sizes), np.zeros(count)), capacity_tokens, 1)


def test_a_hit_counts_even_if_the_object_outgrows_the_cache(policy: Any) -> None:
    hits, state = ran(policy, case([0, 0, 0, 0], [5, 101, 5, 5]))
    assert hits == [False, True, False, True]
    assert state[0][EVICTIONS] == 1
    assert state[0][PEAK] == 5


def test_what_is_larger_than_the_cache_is_not_admitted_and_evicts_nothing(policy: Any) -> None:
    hits, state = ran(policy, case([0, 1, 1, 0], [5, 101, 101, 5]))
    assert hits == [False, False, False, True]
    assert state[0][EVICTIONS] == 0


def test_sizes_follow_the_last_access(policy: Any) -> None:
    hits, state = ran(policy, case([0, 0, 1, 0, 1], [9, 3, 4, 3, 4], capacity_tokens=100))
    assert hits == [False, True, False, True, True]
    assert state[0][PEAK] == 9
    assert state[0][USED] in (0, 7)  # who knows the future keeps nothing at the end


def test_what_fits_together_stays(policy: Any) -> None:
    hits, state = ran(policy, case([0, 1, 0, 1], [4, 4, 4, 4], capacity_tokens=50))
    assert hits == [False, False, True, True]
    assert state[0][CAPACITY] == 50


def test_nothing_is_asked_for(policy: Any) -> None:
    hits, state = ran(policy, case([], []))
    assert hits == []
    assert state[0].tolist() == [100, 0, 0, 0]
