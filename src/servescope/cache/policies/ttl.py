"""TTL: LRU whose objects also leave when nobody asked for them for a while.

Providers keep a cached prefix for minutes after its last use (five minutes is a common promise),
whether or not the room is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.errors import UsageError
from servescope.kernels import linked_list
from servescope.kernels.jit import borrowing_kernel
from servescope.units import LONGEST_S

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

# ttl_s: an object leaves when it was not accessed for more than this many seconds of trace time
PARAMETERS: dict[str, float] = {"ttl_s": 300.0}


class State(NamedTuple):
    """One list of objects in order of access.

    counts         int64[4], see `counts`; an object that expires counts as an eviction
    sizes          int64[objects], tokens held; -1: not resident
    after, before  int32[objects + 1], see `kernels.linked_list`
    used_us        int64[objects], last access, microseconds
    ttl_us         int64[1], longest idle time, microseconds
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    used_us: npt.NDArray[np.int64]
    ttl_us: npt.NDArray[np.int64]


def new(requests: Requests, capacity_tokens: int, seed: int, *, ttl_s: float = PARAMETERS["ttl_s"]) -> State:
    """An empty cache for these requests; `seed` is not used. Raises UsageError for a bad `ttl_s`."""
    if not 0 <= ttl_s <= LONGEST_S:
        raise UsageError(f"ttl_s is {ttl_s:g}; it must be 0 to {LONGEST_S} seconds, for instance 300.")
    known = requests.known
    lists = linked_list.rings(known, 1)
    idle = np.array([round(ttl_s * 1e6)], np.int64)
    return State(
        counters(capacity_tokens), np.full(known, -1, np.int64), *lists, np.zeros(known, np.int64), idle
    )


@borrowing_kernel
def step(state: State, item: int, size: int, now_us: int) -> bool:
    """One access at `now_us`, which never falls; whether it hits. Changes the state.

    Every object idle for longer than the limit leaves first, so an expired object is a miss.
    """
    counts, sizes, after, before, used_us, ttl_us = state
    root = len(sizes)
    while after[root] != root and now_us - used_us[after[root]] > ttl_us[0]:
        _evict_oldest(counts, sizes, after, before)
    held = sizes[item]
    if held >= 0:
        linked_list.remove(after, before, item)
    elif size > counts[CAPACITY]:
        return False
    sizes[item] = size
    used_us[item] = now_us
    counts[USED] += size - max(held, 0)
    linked_list.append(after, before, root, item)
    while counts[USED] > counts[CAPACITY]:
        _evict_oldest(counts, sizes, after, before)
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(held >= 0)


@borrowing_kernel
def _evict_oldest(
    counts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    after: npt.NDArray[np.int32],
    before: npt.NDArray[np.int32],
) -> None:
    """Take the least recently accessed object out. Changes all four."""
    victim = after[len(sizes)]
    linked_list.remove(after, before, victim)
    counts[USED] -= sizes[victim]
    sizes[victim] = -1
    counts[EVICTIONS] += 1


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    objects, sizes, arrival_us = requests.objects, requests.sizes, requests.arrival_us
    for number in range(first, last):
        hits[number] = step(state, objects[number], sizes[number], arrival_us[number])
