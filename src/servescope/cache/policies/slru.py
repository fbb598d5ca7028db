"""SLRU: segments of equal size, each an LRU list; an access lifts an object by one segment.

What overflows a segment sinks to the young end of the one below, and out of the cache from the lowest. A
newcomer enters the lowest segment with room for it, else the lowest of all, after the old of the lowest
segments have made room in the cache. An object larger than a segment is refused; one that grows larger sinks
until it is out. The variant is the `SLRU` of libCacheSim 0.3.5, which has 4 segments of ⌊capacity / 4⌋.
Source of the idea: Karedla, Love and Wherry, IEEE Computer 27(3), 1994.
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

PARAMETERS: dict[str, float] = {"segments": 4}
MOST_SEGMENTS = 127
# NumPy's integers, because for Python's Numba compiles a function anew for each value
NOWHERE, LOWEST = np.int64(-1), np.int64(0)


class State(NamedTuple):
    """A list of objects for each segment, in order of arrival there; segment k has the root objects + k.

    counts         int64[4], see `counts`
    places         int8[objects], the segment; NOWHERE: not resident
    sizes          int64[objects], tokens held, if resident
    room           int64[1], tokens that a segment is meant to hold
    held           int64[segments], tokens in each segment
    after, before  int32[objects + segments], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int8]
    sizes: npt.NDArray[np.int64]
    room: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int, *, segments: float = 4) -> State:
    """An empty cache for these requests; `seed` is not used. Raises UsageError on bad `segments`."""
    if segments not in range(1, MOST_SEGMENTS + 1):
        raise UsageError(f"slru: segments is {segments:g}; give a whole number from 1 to {MOST_SEGMENTS}.")
    known, lists = requests.known, int(segments)
    return State(
        counters(capacity_tokens),
        np.full(known, NOWHERE, np.int8),
        np.zeros(known, np.int64),
        np.array([capacity_tokens // lists], np.int64),
        np.zeros(lists, np.int64),
        *linked_list.rings(known, lists),
    )


@borrowing_kernel
def _move(state: State, item: np.uint32, segment: np.int64) -> None:
    """Take an object from its segment, if any, and append it to another (or none)."""
    if state.places[item] != NOWHERE:
        linked_list.remove(state.after, state.before, item)
        state.held[state.places[item]] -= state.sizes[item]
    state.places[item] = segment
    if segment != NOWHERE:
        linked_list.append(state.after, state.before, len(state.sizes) + segment, item)
        state.held[segment] += state.sizes[item]


@borrowing_kernel
def _lose(state: State, segment: np.int64) -> None:
    """Evict the oldest object of a segment."""
    victim = np.uint32(state.after[len(state.sizes) + segment])
    state.counts[USED] -= state.sizes[victim]
    state.counts[EVICTIONS] += 1
    _move(state, victim, NOWHERE)


@borrowing_kernel
def _sink(state: State, segment: np.int64) -> None:
    """What overflows this segment sinks, then what overflows the one below, and so on."""
    while state.held[segment] > state.room[0]:
        if segment == LOWEST:
            _lose(state, LOWEST)
        else:
            _move(state, np.uint32(state.after[len(state.sizes) + segment]), segment - 1)
            if state.held[segment] <= state.room[0]:
                segment -= 1


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, held = state.counts, state.sizes, state.held
    place = np.int64(state.places[item])
    resident = place != NOWHERE
    incoming = size
    if resident:
        _move(state, np.uint32(item), NOWHERE)
        counts[USED] += size - sizes[item]
        sizes[item] = size
        higher = min(place + 1, np.int64(len(held) - 1))
        _move(state, np.uint32(item), higher)
        _sink(state, higher)
        incoming = 0
    elif size > state.room[0]:
        return False
    while counts[USED] + incoming > counts[CAPACITY]:
        lowest = LOWEST
        while linked_list.is_empty(state.after, len(sizes) + lowest):
            lowest += 1
        _lose(state, lowest)
    if not resident:
        segment = LOWEST
        while segment < len(held) and held[segment] + size > state.room[0]:
            segment += 1
        counts[USED] += size
        sizes[item] = size
        _move(state, np.uint32(item), segment if segment < len(held) else LOWEST)
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(resident)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
