"""LFU: the object with the fewest accesses since its admission goes first.

Of several the one accessed longest ago. Counts are lost on eviction. On a miss room is made before the
newcomer enters. libCacheSim 0.3.5 has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.kernels import heap
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """A heap of objects by (accesses since admission, number of the last access).

    counts    int64[4], see `counts`
    sizes     int64[objects], tokens held; -1: not resident
    accesses  int64[1], accesses so far
    ranks     see `kernels.heap`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    accesses: npt.NDArray[np.int64]
    ranks: heap.Heap


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used."""
    known = requests.known
    return State(
        counters(capacity_tokens), np.full(known, -1, np.int64), np.zeros(1, np.int64), heap.new(known)
    )


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, accesses, ranks = state
    accesses[0] += 1
    held = sizes[item]
    incoming = size
    count = 1.0
    if held >= 0:
        sizes[item] = size
        counts[USED] += size - held
        incoming = 0
        count += ranks.keys[ranks.nodes[item]]
    elif size > counts[CAPACITY]:
        return False
    if held >= 0:
        heap.put(ranks, np.int64(item), count, accesses[0])
    while counts[USED] + incoming > counts[CAPACITY]:
        victim, _ = heap.pop(ranks)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    if held < 0:
        sizes[item] = size
        counts[USED] += size
        heap.put(ranks, np.int64(item), count, accesses[0])
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(held >= 0)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
