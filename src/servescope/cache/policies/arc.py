"""ARC: two LRU lists, for objects accessed once and more often; names of their victims move the border.

A miss on a name in ghost 1 raises the target of list 1 by max(ghost 2 / ghost 1, 1) tokens, one in ghost 2
lowers it by max(ghost 1 / ghost 2, 1); the object enters list 2. A victim is the oldest of list 1 when that
is over the target (or at it, after a miss in ghost 2) or list 2 is empty, of list 2 otherwise, and its name
goes to the ghost. Any other miss enters list 1, and before each victim a name is dropped: of ghost 1 where
list 1, ghost 1 and the newcomer exceed the capacity (where it is empty the victim is of list 1 and leaves no
name), else of ghost 2 where all four hold twice the capacity. Source: Megiddo and Modha, FAST 2003, figure 4;
details for objects of any size as in libCacheSim 0.3.5.

What that library leaves open because it never changes a size: an object that grows makes room like a miss
with nothing incoming, so that the ghosts stay within their bounds; one refused leaves the ghosts alone.
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
# NumPy's integers, because for Python's Numba compiles a function anew for each value
ONCE, OFTEN, GHOST_1, GHOST_2, NOWHERE = np.arange(5)


class State(NamedTuple):
    """Four lists of objects in order of access or eviction; list k has the root objects + k.

    counts         int64[4], see `counts`
    places         int8[objects], ONCE, OFTEN, GHOST_1, GHOST_2 or NOWHERE
    sizes          int64[objects], tokens held, or when it was evicted
    held           int64[4], tokens in each list
    target         float64[1], tokens meant for ONCE
    after, before  int32[objects + 4], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int8]
    sizes: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    target: npt.NDArray[np.float64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used."""
    known = requests.known
    return State(
        counters(capacity_tokens),
        np.full(known, NOWHERE, np.int8),
        np.zeros(known, np.int64),
        np.zeros(4, np.int64),
        np.zeros(1),
        *linked_list.rings(known, 4),
    )


@borrowing_kernel
def _leave(state: State, item: np.uint32) -> None:
    """Take an object out of its list; its place is to be set."""
    linked_list.remove(state.after, state.before, item)
    state.held[state.places[item]] -= state.sizes[item]


@borrowing_kernel
def _enter(state: State, item: np.uint32, place: np.int64) -> None:
    """Append an object that is in no list to one."""
    state.places[item] = place
    linked_list.append(state.after, state.before, len(state.sizes) + place, item)
    state.held[place] += state.sizes[item]


@borrowing_kernel
def _drop_name(state: State, incoming: int) -> bool:
    """Drop a name if the names are out of bounds; whether that would be one of ghost 1, which is empty."""
    after, held, root = state.after, state.held, len(state.sizes)
    capacity, ghost = state.counts[CAPACITY], NOWHERE
    if held[ONCE] + held[GHOST_1] + incoming > capacity:
        ghost = GHOST_1
    elif held[ONCE] + held[OFTEN] + held[GHOST_1] + held[GHOST_2] >= 2 * capacity:
        ghost = GHOST_2
    if ghost == NOWHERE:
        return False
    oldest = np.uint32(after[root + ghost])
    if oldest < root:
        _leave(state, oldest)
        state.places[oldest] = NOWHERE
        return False
    return bool(ghost == GHOST_1)


@borrowing_kernel
def _evict(state: State, incoming: int, missed: np.int64) -> None:
    """One object goes.

    missed  the ghost in which the access missed, if any; otherwise a name is dropped first
    """
    root, once, target = len(state.sizes), state.held[ONCE], state.target[0]
    place, ghost = OFTEN, GHOST_2
    if missed != GHOST_1 and missed != GHOST_2 and _drop_name(state, incoming):
        place, ghost = ONCE, NOWHERE
    elif linked_list.is_empty(state.after, root + OFTEN) or (
        (once > target or (once == target and missed == GHOST_2))
        and not linked_list.is_empty(state.after, root + ONCE)
    ):
        place, ghost = ONCE, GHOST_1
    victim = np.uint32(state.after[root + place])
    _leave(state, victim)
    state.counts[USED] -= state.sizes[victim]
    state.counts[EVICTIONS] += 1
    if ghost == NOWHERE:
        state.places[victim] = NOWHERE
    else:
        _enter(state, victim, ghost)


@borrowing_kernel
def _adapt(state: State, item: np.uint32) -> None:
    """Move the target after a miss on a name, which leaves its ghost."""
    ghosts_1, ghosts_2 = np.float64(state.held[GHOST_1]), np.float64(state.held[GHOST_2])
    if state.places[item] == GHOST_1:
        raised = state.target[0] + max(ghosts_2 / max(ghosts_1, 1.0), 1.0)
        state.target[0] = min(raised, np.float64(state.counts[CAPACITY]))
    else:
        state.target[0] = max(state.target[0] - max(ghosts_1 / max(ghosts_2, 1.0), 1.0), 0.0)
    _leave(state, item)


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes = state.counts, state.sizes
    place = np.int64(state.places[item])
    resident = place in (ONCE, OFTEN)
    remembered = place in (GHOST_1, GHOST_2)
    incoming = size
    if resident:
        _leave(state, np.uint32(item))
        counts[USED] += size - sizes[item]
        sizes[item] = size
        _enter(state, np.uint32(item), OFTEN)
        incoming = 0
    elif size > counts[CAPACITY]:
        return False
    elif remembered:
        _adapt(state, np.uint32(item))
    while counts[USED] + incoming > counts[CAPACITY]:
        _evict(state, incoming, place)
    if not resident:
        counts[USED] += size
        sizes[item] = size
        _enter(state, np.uint32(item), OFTEN if remembered else ONCE)
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(resident)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
