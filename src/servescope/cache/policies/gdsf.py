"""GDSF: the object with the least inflation + accesses x 10^6 / size goes first.

Of several the one accessed longest ago. The inflation is the priority of the last victim, so that old counts
fade. A newcomer enters first and may be the victim itself. A priority is set at each access with the size of
that access (0 counts as 1). Source: Cherkasova, HPL-98-69R1, 1998, with equal costs; constants and ties as in
libCacheSim 0.3.5.
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
COST = 1.0e6  # only equal priorities by rounding depend on it


class State(NamedTuple):
    """A heap of objects by (priority, number of the last access).

    counts      int64[4], see `counts`
    sizes       int64[objects], tokens held; -1: not resident
    accesses    int64[1], accesses so far
    inflation   float64[1], priority of the last victim
    frequencies int64[objects], accesses since admission
    ranks       see `kernels.heap`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    accesses: npt.NDArray[np.int64]
    inflation: npt.NDArray[np.float64]
    frequencies: npt.NDArray[np.int64]
    ranks: heap.Heap


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used."""
    known = requests.known
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1),
        np.zeros(known, np.int64),
        heap.new(known),
    )


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, accesses, inflation, frequencies, ranks = state
    accesses[0] += 1
    held = sizes[item]
    if held >= 0:
        frequencies[item] += 1
    elif size > counts[CAPACITY]:
        return False
    else:
        frequencies[item] = 1
    sizes[item] = size
    counts[USED] += size - max(held, 0)
    priority = inflation[0] + frequencies[item] * COST / max(size, 1)
    heap.put(ranks, np.int64(item), priority, accesses[0])
    while counts[USED] > counts[CAPACITY]:
        victim, inflation[0] = heap.pop(ranks)
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
