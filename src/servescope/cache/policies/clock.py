"""CLOCK: FIFO, but an object accessed since goes round again, once for every access that its counter holds.

A counter starts at 0 and stops at 2^counter_bits - 1. At its turn an object with 0 goes; another pays one
and becomes the youngest. On a miss room is made before the newcomer enters. The variant is the `Clock` of
libCacheSim 0.3.5 (`n-bit-counter`, there also 1 by default); with one bit it is second chance (Corbató 1968).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.errors import UsageError
from servescope.kernels import linked_list
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

PARAMETERS: dict[str, float] = {"counter_bits": 1}
MOST_BITS = 8


class State(NamedTuple):
    """One list of objects in order of admission or of their last round.

    counts         int64[4], see `counts`
    sizes          int64[objects], tokens held; -1: not resident
    accessed       uint8[objects], accesses that still count
    most           uint8[1], the largest count
    after, before  int32[objects + 1], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    accessed: npt.NDArray[np.uint8]
    most: npt.NDArray[np.uint8]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int, *, counter_bits: float = 1) -> State:
    """An empty cache for these requests; `seed` is not used. Raises UsageError on a bad `counter_bits`."""
    if counter_bits not in range(1, MOST_BITS + 1):
        raise UsageError(
            f"clock: counter_bits is {counter_bits:g}; give a whole number from 1 to {MOST_BITS}."
        )
    known = requests.known
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        np.zeros(known, np.uint8),
        np.array([2 ** int(counter_bits) - 1], np.uint8),
        *linked_list.rings(known, 1),
    )


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, accessed, most, after, before = state
    root = len(sizes)
    held = sizes[item]
    incoming = size
    if held >= 0:
        sizes[item] = size
        counts[USED] += size - held
        incoming = 0
        if accessed[item] < most[0]:
            accessed[item] += 1
    elif size > counts[CAPACITY]:
        return False
    while counts[USED] + incoming > counts[CAPACITY]:
        victim = after[root]
        linked_list.remove(after, before, victim)
        if accessed[victim] > 0:
            accessed[victim] -= 1
            linked_list.append(after, before, root, victim)
        else:
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
