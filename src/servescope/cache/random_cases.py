"""Small random traces that put a policy to the test: many corners, few requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from servescope.cache.requests import Requests, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST, MOST_OBJECTS, MOST_CAPACITY = 80, 12, 60


@dataclass(frozen=True)
class Case:
    """A random trace, the cache it is put on, and the seed that the policy gets."""

    requests: Requests
    capacity_tokens: int
    seed: int


def random_cases(seed: int, number: int) -> Iterator[Case]:
    """So many random traces with a capacity each; the same seed gives the same ones."""
    random = np.random.default_rng(seed)
    for place in range(number):
        requests = random_requests(random)
        capacity = int(random.integers(1, MOST_CAPACITY + 1))
        yield Case(requests, capacity, seed + place)


def random_requests(random: np.random.Generator) -> Requests:
    """A small trace: equal, fixed, growing or arbitrary sizes, at times 0; pauses of up to 1,000 seconds."""
    length = int(random.integers(1, LONGEST + 1))
    drawn = random.integers(0, random.integers(1, MOST_OBJECTS + 1), length)
    _, first, inverse = np.unique(drawn, return_index=True, return_inverse=True)
    objects = np.argsort(np.argsort(first))[inverse].astype(np.int32)
    fixed = random.integers(1, 20, objects.max() + 1)
    kind = int(random.integers(4))
    if kind == 0:
        sizes = np.full(length, int(random.integers(1, 10)))
    elif kind == 1:
        sizes = fixed[objects]
    elif kind == 2:
        turn = np.array([np.count_nonzero(objects[:place] == objects[place]) for place in range(length)])
        sizes = fixed[objects] + turn * random.integers(0, 6)
    else:
        sizes = random.integers(0, 30, length)
    pauses_us = random.choice([0, 1_000_000, 200_000_000, 1_000_000_000], length, p=[0.3, 0.4, 0.25, 0.05])
    return requests_of(objects, sizes, np.cumsum(pauses_us) - pauses_us[0])
