"""SIEVE: a hand walks from old to young, clears marks of accesses and takes the first object without one.

Objects keep the place of their admission. On a miss room is made before the newcomer enters. Source: Zhang
et al., NSDI 2024, section 3; libCacheSim 0.3.5 has the same.
"""

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
    """One list of objects in order of admission.

    counts         int64[4], see `counts`
    sizes          int64[objects], tokens held; -1: not resident
    accessed       uint8[objects], 1: accessed since the hand passed
    hand           int32[1], the object that the hand looks at next; the root: the oldest
    after, before  int32[objects + 1], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    accessed: npt.NDArray[np.uint8]
    hand: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used."""
    known = requests.known
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        np.zeros(known, np.uint8),
        np.array([known], np.int32),
        *linked_list.rings(known, 1),
    )


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, accessed, hand, after, before = state
    root = len(sizes)
    held = sizes[item]
    incoming = size
    if held >= 0:
        sizes[item] = size
        counts[USED] += size - held
        incoming = 0
        accessed[item] = 1
    elif size > counts[CAPACITY]:
        return False
    while counts[USED] + incoming > counts[CAPACITY]:
        victim = after[root] if hand[0] == root else hand[0]
        while accessed[victim]:
            accessed[victim] = 0
            victim = after[victim]
            if victim == root:
                victim = after[root]
        hand[0] = after[victim]
        linked_list.remove(after, before, victim)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    if held < 0:
        sizes[item] = size
        counts[USED] += size
        accessed[item] = 0
        linked_list.append(after, before, root, item)
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(held >= 0)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
