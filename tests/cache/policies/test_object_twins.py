"""The classic object policies against their slow twins: sizes that grow, shrink and vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED
from servescope.errors import UsageError
from tests.cache.policies.object_traces import grown, made, module, requests_from, residents, run, working_set
from tests.reference.object_policies import TWINS
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

VARIANTS: list[tuple[str, dict[str, int]]] = [
    *((policy, {}) for policy in TWINS),
    ("s3fifo", {"threshold": 2}),
    ("clock", {"counter_bits": 3}),
    ("slru", {"segments": 1}),
    ("slru", {"segments": 2}),
]
each_variant = pytest.mark.parametrize(("policy", "parameters"), VARIANTS, ids=str)


def same_as_twin(policy: str, parameters: dict[str, int], requests: Requests, capacity: int) -> None:
    """Hit, evictions, tokens held, peak and every resident's size, after each access."""
    twin = TWINS[policy](capacity, **parameters)
    state = module(policy).new(requests, capacity, 10, **parameters)
    hits = np.zeros(len(requests.objects), np.uint8)
    for number, (item, size) in enumerate(
        zip(requests.objects.tolist(), requests.sizes.tolist(), strict=True)
    ):
        hit = twin.access(item, size)
        module(policy).run(state, requests, hits, number, number + 1)
        assert hits[number] == hit
        assert residents(policy, state) == twin.sizes
        assert state.counts[USED] == sum(twin.sizes.values()) <= capacity
        assert state.counts[EVICTIONS] == twin.evictions
        assert state.counts[PEAK] == twin.peak <= capacity
    assert state.counts[CAPACITY] == capacity


@each_variant
@settings(max_examples=150, deadline=None)
@given(
    accesses=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 14)), max_size=60),
    capacity=st.integers(0, 110),
)
def test_any_sizes_as_in_the_twin(
    policy: str, parameters: dict[str, int], accesses: list[tuple[int, int]], capacity: int
) -> None:
    requests = requests_from([name for name, _ in accesses], [size for _, size in accesses])
    same_as_twin(policy, parameters, requests, capacity)


@each_variant
@pytest.mark.parametrize("seed", range(6))
def test_growing_sizes_as_in_the_twin(policy: str, parameters: dict[str, int], seed: int) -> None:
    requests = grown(seed, rows=400, objects=40, largest=30)
    same_as_twin(policy, parameters, requests, max(working_set(requests) * (seed + 1) // 6, 10))


@each_variant
def test_fixed_sizes_as_in_the_twin(policy: str, parameters: dict[str, int]) -> None:
    requests = made("zipf", 3, rows=600, objects=60, largest=9)
    same_as_twin(policy, parameters, requests, working_set(requests) // 4)


@each_variant
def test_the_made_traces_reach_hits_evictions_and_growth_of_residents(
    policy: str, parameters: dict[str, int]
) -> None:
    requests = grown(2, rows=400, objects=40, largest=30)
    state, hits = run(policy, requests, working_set(requests) // 2, **parameters)
    assert 40 < hits.sum() < 390
    assert state.counts[EVICTIONS] > 30


@needs_cases
def test_object_that_grows_on_a_hit_makes_room_in_lru() -> None:
    rows = [
        line.split(",") for line in (CASES / "36-size-grows.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    requests = requests_from([int(name[1:]) for _, name, _ in rows], [int(size) for _, _, size in rows])
    state = module("lru").new(requests, 10, 10)
    hits, held = np.zeros(6, np.uint8), []
    for number in range(6):
        module("lru").run(state, requests, hits, number, number + 1)
        held.append(int(state.counts[USED]))
    assert hits.tolist() == [0, 0, 1, 1, 0, 1]
    assert held == [3, 7, 10, 6, 7, 5]
    assert state.counts[PEAK] == 10


@pytest.mark.parametrize("policy", [policy for policy in TWINS if policy != "slru"])
def test_object_that_outgrows_the_cache_hits_and_goes(policy: str) -> None:
    requests = requests_from([1, 1, 1], [9, 101, 9])
    state, hits = run(policy, requests, 100)
    assert hits.tolist() == [False, True, False]
    assert state.counts[EVICTIONS] == 1
    assert state.counts[USED] == 9


@pytest.mark.parametrize(
    ("policy", "parameters", "message"),
    [
        ("clock", {"counter_bits": 0}, "counter_bits is 0; give a whole number from 1 to 8"),
        ("clock", {"counter_bits": 1.5}, "counter_bits is 1.5"),
        ("s3fifo", {"threshold": 256}, "threshold is 256; give a whole number from 1 to 255"),
        ("slru", {"segments": -1}, "segments is -1; give a whole number from 1 to 127"),
    ],
)
def test_bad_parameter_is_refused_with_its_range(
    policy: str, parameters: dict[str, float], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        module(policy).new(requests_from([1], [1]), 100, 10, **parameters)


@pytest.mark.parametrize("policy", TWINS)
def test_defaults_of_new_are_the_stated_parameters(policy: str) -> None:
    requests = made("zipf", 4, rows=500, objects=60, largest=9)
    stated, hits = run(policy, requests, 100, **module(policy).PARAMETERS)
    plain, others = run(policy, requests, 100)
    assert (hits == others).all()
    assert (stated.counts == plain.counts).all()
