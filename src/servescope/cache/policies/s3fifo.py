"""S3-FIFO: newcomers pass a small FIFO; those accessed there, or missed soon after, enter the main one.

small  a tenth of the capacity; at its turn an object with `threshold` accesses moves to main, another goes
       and is remembered in the ghost
main   the rest; at its turn an object with f > 0 accesses goes round again with min(f, 3) - 1, another goes
ghost  names of objects worth nine tenths of the capacity; a miss on one enters main

Until the first eviction newcomers enter main once small is full. Main loses an object when it holds more than
its share or small is empty, small otherwise. An object larger than small is refused. On a miss room is made
before the newcomer enters, and its name leaves the ghost before that. Source: Yang et al., SOSP 2023; details
as in libCacheSim 0.3.5, whose threshold is 2.

An object as large as small itself is refused too, though room is made for it, as there. What the
library leaves open because it never changes a size: counts and shares use the size of the last access, an
object refused for its size leaves the ghost as it is, one larger than the ghost is not remembered.
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

PARAMETERS: dict[str, float] = {"threshold": 1}
MOST_THRESHOLD = 255
ROUNDS = 3  # accesses that main remembers
# NumPy's integers, because for Python's Numba compiles a function anew for each value
SMALL, MAIN, GHOST, NOWHERE = np.arange(4)


class State(NamedTuple):
    """Three lists of objects in order of arrival there; list k has the root objects + k.

    counts         int64[4], see `counts`
    places         int8[objects], SMALL, MAIN, GHOST or NOWHERE
    sizes          int64[objects], tokens held, or when it went to the ghost
    accessed       uint8[objects], accesses since it came to its list
    shares         int64[3], tokens meant for each list
    held           int64[3], tokens in each list
    threshold      uint8[1], accesses that lead from small to main
    after, before  int32[objects + 3], see `kernels.linked_list`
    """

    counts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int8]
    sizes: npt.NDArray[np.int64]
    accessed: npt.NDArray[np.uint8]
    shares: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.uint8]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]


def new(requests: Requests, capacity_tokens: int, seed: int, *, threshold: float = 1) -> State:
    """An empty cache for these requests; `seed` is not used. Raises UsageError on a bad `threshold`."""
    if threshold not in range(1, MOST_THRESHOLD + 1):
        raise UsageError(
            f"s3fifo: threshold is {threshold:g}; give a whole number from 1 to {MOST_THRESHOLD}."
        )
    known = requests.known
    small = capacity_tokens // 10
    return State(
        counters(capacity_tokens),
        np.full(known, NOWHERE, np.int8),
        np.zeros(known, np.int64),
        np.zeros(known, np.uint8),
        np.array([small, capacity_tokens - small, 9 * capacity_tokens // 10], np.int64),
        np.zeros(3, np.int64),
        np.array([threshold], np.uint8),
        *linked_list.rings(known, 3),
    )


@borrowing_kernel
def _move(state: State, item: np.uint32, place: np.int64) -> None:
    """Take an object from the list that it is in, if any, and append it to another (or none)."""
    known = len(state.sizes)
    if state.places[item] != NOWHERE:
        linked_list.remove(state.after, state.before, item)
        state.held[state.places[item]] -= state.sizes[item]
    state.places[item] = place
    state.accessed[item] = 0
    if place != NOWHERE:
        linked_list.append(state.after, state.before, known + place, item)
        state.held[place] += state.sizes[item]


@borrowing_kernel
def _remember(state: State, item: np.uint32) -> None:
    """Move an object to the ghost, whose oldest names make room."""
    if state.sizes[item] > state.shares[GHOST]:
        _move(state, item, NOWHERE)
        return
    while state.held[GHOST] + state.sizes[item] > state.shares[GHOST]:
        _move(state, np.uint32(state.after[len(state.sizes) + GHOST]), NOWHERE)
    _move(state, item, GHOST)


@borrowing_kernel
def _evict(state: State) -> None:
    """One turn of small or main: an object goes, or all of small moved to main."""
    counts, after, root = state.counts, state.after, len(state.sizes)
    small = not linked_list.is_empty(after, root + SMALL) and state.held[MAIN] <= state.shares[MAIN]
    while True:
        victim = np.uint32(after[root + (SMALL if small else MAIN)])
        if victim >= root:
            return
        accessed = state.accessed[victim]
        if small and accessed >= state.threshold[0]:
            _move(state, victim, MAIN)
        elif not small and accessed > 0:
            _move(state, victim, MAIN)
            state.accessed[victim] = min(accessed, ROUNDS) - 1
        else:
            break
    counts[USED] -= state.sizes[victim]
    counts[EVICTIONS] += 1
    if small:
        _remember(state, victim)
    else:
        _move(state, victim, NOWHERE)


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, shares = state.counts, state.sizes, state.shares
    place = np.int64(state.places[item])
    resident = place in (SMALL, MAIN)
    incoming = size
    if resident:
        counts[USED] += size - sizes[item]
        state.held[place] += size - sizes[item]
        sizes[item] = size
        incoming = 0
        if state.accessed[item] < MOST_THRESHOLD:
            state.accessed[item] += 1
    elif size > shares[SMALL]:
        return False
    elif place == GHOST:
        _move(state, np.uint32(item), NOWHERE)
    while counts[USED] + incoming > counts[CAPACITY]:
        _evict(state)
    if not resident and (place == GHOST or size < shares[SMALL]):
        filling = counts[EVICTIONS] == 0 and state.held[SMALL] >= shares[SMALL]
        counts[USED] += size
        sizes[item] = size
        _move(state, np.uint32(item), MAIN if place == GHOST or filling else SMALL)
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(resident)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
