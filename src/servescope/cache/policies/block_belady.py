"""Clairvoyant caches of prefix blocks (design, section 14): evict the leaf whose next use is farthest.

`belady` takes in every block that it missed. `belady_bypass` keeps the blocks with the earliest next uses,
also against the newcomers, and no other policy has more block hits. A parent is never used later than its
child, so the farthest next use is that of a leaf, given that of equal ones the deeper goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.cache.prompts import next_requests
from servescope.kernels.jit import borrowing_kernel
from servescope.kernels.places import Words, add_place, drop_place, empty_places, largest_place

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """Cached blocks by the request that uses them next; blocks of one request queue from deep to shallow.

    counts         int64[4], see `counts`, in blocks
    cached         bool[known]
    nexts          int32[references], next request through the same node, n for none
    first, last    int32[n + 1], both ends of the queue of each next request, -1: empty
    behind         int32[known], the block behind in the queue, -1: none
    levels         the next requests whose queue is not empty
    bypass         bool[1]
    """

    counts: npt.NDArray[np.int64]
    cached: npt.NDArray[np.bool_]
    nexts: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    behind: npt.NDArray[np.int32]
    levels: tuple[Words, Words, Words]
    bypass: npt.NDArray[np.bool_]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, bypass: bool = False) -> State:
    """An empty cache for these prompts; `seed` is not used.

    bypass  whether a newcomer may be left out (`belady_bypass`)
    """
    requests = len(prompts.tails)
    return State(
        counters(capacity_blocks),
        np.zeros(prompts.known, np.bool_),
        next_requests(prompts.offsets, prompts.nodes, prompts.known),
        np.full(requests + 1, -1, np.int32),
        np.full(requests + 1, -1, np.int32),
        np.full(prompts.known, -1, np.int32),
        empty_places(requests + 1),
        np.array([bypass]),
    )


@borrowing_kernel
def evict_farthest(state: State, sooner_than: int) -> bool:
    """Evict the deepest block of the farthest next request, if that is after `sooner_than`."""
    farthest = largest_place(state.levels)
    if farthest <= sooner_than:
        return False
    victim = state.first[farthest]
    state.first[farthest] = state.behind[victim]
    if state.first[farthest] < 0:
        drop_place(state.levels, farthest)
    state.cached[victim] = False
    state.counts[EVICTIONS] += 1
    state.counts[USED] -= 1
    return True


@borrowing_kernel
def enqueue(state: State, node: int, coming: int) -> None:
    """Put a block at the end of the queue of its next request. Changes the state."""
    state.behind[node] = -1
    if state.first[coming] < 0:
        state.first[coming] = node
        add_place(state.levels, coming)
    else:
        state.behind[state.last[coming]] = node
    state.last[coming] = node


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, cached = state.counts, state.cached
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and cached[prompts.nodes[place]]:
        place += 1
    hits = place - low
    if state.first[request] >= 0:  # exactly the blocks that were found; they queue anew below
        state.first[request] = -1
        drop_place(state.levels, request)
    while place < high:
        if counts[USED] == counts[CAPACITY]:
            sooner_than = state.nexts[place] if state.bypass[0] else -1
            if not evict_farthest(state, sooner_than):
                break
        cached[prompts.nodes[place]] = True
        counts[USED] += 1
        place += 1
    for kept in range(place - 1, low - 1, -1):
        enqueue(state, prompts.nodes[kept], state.nexts[kept])
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
