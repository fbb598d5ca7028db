"""Objects of fixed size: hit by hit what libCacheSim 0.3.5 does, and the same tokens held at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope.cache.policies.counts import USED
from tests.cache.policies.object_traces import SHAPES, made, run, working_set

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

library = pytest.importorskip("libcachesim", minversion="0.3.5")
VARIANTS: list[tuple[str, dict[str, int], str, dict[str, int]]] = [
    ("fifo", {}, "FIFO", {}),
    ("lru", {}, "LRU", {}),
    ("lfu", {}, "LFU", {}),
    ("clock", {}, "Clock", {}),
    ("clock", {"counter_bits": 3}, "Clock", {"n_bit_counter": 3}),
    ("sieve", {}, "Sieve", {}),
    ("s3fifo", {"threshold": 2}, "S3FIFO", {}),
    ("s3fifo", {}, "S3FIFO", {"move_to_main_threshold": 1}),
    ("arc", {}, "ARC", {}),
    ("slru", {}, "SLRU", {}),
    ("gdsf", {}, "GDSF", {}),
]
each_variant = pytest.mark.parametrize(("policy", "ours", "name", "theirs"), VARIANTS, ids=str)


def same_as_library(
    policy: str, ours: dict[str, int], name: str, theirs: dict[str, int], requests: Requests, capacity: int
) -> int:
    """The number of misses, which are the same ones."""
    # at its default of 2^24 buckets the table alone takes longer than a small trace
    cache = getattr(library, name)(capacity, hashpower=10, **theirs)
    found = [
        cache.get(library.Request(obj_id=item + 1, obj_size=size))
        for item, size in zip(requests.objects.tolist(), requests.sizes.tolist(), strict=True)
    ]
    state, hits = run(policy, requests, capacity, **ours)
    assert hits.tolist() == found
    assert state.counts[USED] == cache.get_occupied_byte()
    return int(np.count_nonzero(~hits))


@each_variant
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("largest", [1, 40])
def test_same_misses_at_every_capacity(
    policy: str, ours: dict[str, int], name: str, theirs: dict[str, int], shape: str, largest: int
) -> None:
    requests = made(shape, 1, rows=2_000, objects=300, largest=largest)
    whole = working_set(requests)
    misses = [
        same_as_library(policy, ours, name, theirs, requests, max(whole * percent // 100, 10))
        for percent in (2, 10, 30, 60, 90)
    ]
    assert min(misses) < 2_000


@each_variant
@pytest.mark.parametrize("seed", range(25))
def test_same_misses_in_tiny_caches_and_with_objects_larger_than_the_cache(
    policy: str, ours: dict[str, int], name: str, theirs: dict[str, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    requests = made(SHAPES[seed % 4], seed, rows=300, objects=int(random.integers(2, 40)), largest=6)
    # the library ends the process where a tenth of the capacity is nothing
    least = 10 if policy == "s3fifo" else 1
    same_as_library(policy, ours, name, theirs, requests, int(random.integers(least, 90)))
