"""LRU: the least recently accessed object goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.kernels import linked_list
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """One list of objects in order of access.

    counts         int64[4], see `counts`
    sizes          int64[objects], tokens held; -1: not resident
    after, before  int32[objects + 1], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used."""
    known = requests.known
    return State(counters(capacity_tokens), np.full(known, -1, np.int64), *linked_list.rings(known, 1))


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, after, before = state
    root = len(sizes)
    held = sizes[item]
    if held >= 0:
        linked_list.remove(after, before, item)
    elif size > counts[CAPACITY]:
        return False
    sizes[item] = size
    counts[USED] += size - max(held, 0)
    linked_list.append(after, before, root, item)
    while counts[USED] > counts[CAPACITY]:
        victim = after[root]
        linked_list.remove(after, before, victim)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(held >= 0)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
