"""S3-FIFO of prefix blocks with the leaf rule (Yang et al., SOSP 2023).

A small queue of a tenth of the capacity takes newcomers; a block that leaves it with at least `threshold`
hits goes to the main queue, another is evicted and remembered. A newcomer that is remembered goes to the
main queue at once: the last ⌊0.9 C⌋ blocks that the small queue evicted are. The main queue puts a block
back for each of its hits, up to three. Blocks that may not go (held, or with cached children) are put
back as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, USED
from servescope.cache.policies.queues import (
    Ring,
    admit,
    enter,
    forget,
    full,
    leave,
    may_go,
    new_ring,
    take_leading,
)
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {"threshold": 1}
SMALL, MAIN = 0, 1
MOST_HITS = 3
NOT_YET = -(1 << 62)


class State(NamedTuple):
    """Two rings with hits.

    counts    those of `ring`
    ring      see `queues`; the rings end in known + SMALL and known + MAIN
    main      bool[known], whether a cached block is in the main queue
    hits      int8[known], up to MOST_HITS
    evicted   int64[known], evictions of the small queue when it evicted the block
    tallies   int64[3]: blocks in the small queue, its evictions, hits that promote
    """

    counts: npt.NDArray[np.int64]
    ring: Ring
    main: npt.NDArray[np.bool_]
    hits: npt.NDArray[np.int8]
    evicted: npt.NDArray[np.int64]
    tallies: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, threshold: float = 1) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    ring = new_ring(prompts, capacity_blocks, 2)
    known = prompts.known
    return State(
        ring.counts,
        ring,
        np.zeros(known, np.bool_),
        np.zeros(known, np.int8),
        np.full(known, NOT_YET, np.int64),
        np.array([0, 0, int(threshold)], np.int64),
    )


@borrowing_kernel
def _from_small(state: State, prompts: Prompts, node: int) -> bool:
    """What becomes of the oldest block of the small queue; whether it was evicted. Changes the state."""
    ring, tallies, known = state.ring, state.tallies, len(state.main)
    if state.hits[node] >= tallies[2]:
        leave(ring, node)
        enter(ring, known + MAIN, node)
        state.main[node], state.hits[node] = True, 0
        tallies[0] -= 1
        return False
    if not may_go(ring, node):
        leave(ring, node)
        enter(ring, known + SMALL, node)
        return False
    forget(ring, prompts, node)
    tallies[0] -= 1
    tallies[1] += 1
    state.evicted[node] = tallies[1]
    return True


@borrowing_kernel
def _evict(state: State, prompts: Prompts) -> bool:
    """Evict one block; whether there was one that may go. Changes the state."""
    ring, known = state.ring, len(state.main)
    capacity, used = ring.counts[CAPACITY], ring.counts[USED]
    for _ in range((MOST_HITS + 2) * used + 2):
        small = ring.after[known + SMALL]
        main = ring.after[known + MAIN]
        over = used - state.tallies[0] > capacity - capacity // 10
        if small < known + SMALL and (not over or main == known + MAIN):
            if _from_small(state, prompts, small):
                return True
        elif main < known:
            if state.hits[main] > 0 or not may_go(ring, main):
                leave(ring, main)
                enter(ring, known + MAIN, main)
                state.hits[main] = max(0, state.hits[main] - 1)
            else:
                forget(ring, prompts, main)
                return True
        else:
            return False
    return False


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    ring, tallies, known = state.ring, state.tallies, len(state.main)
    hits = take_leading(ring, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    for place in range(low, low + hits):
        state.hits[prompts.nodes[place]] = min(MOST_HITS, state.hits[prompts.nodes[place]] + 1)
    ghosts = ring.counts[CAPACITY] * 9 // 10
    place = low + hits
    while place < high:
        if full(ring) and not _evict(state, prompts):
            break
        admit(ring, prompts, request, prompts.nodes[place])
        place += 1
    for fresh in range(place - 1, low + hits - 1, -1):
        node = prompts.nodes[fresh]
        remembered = tallies[1] - state.evicted[node] < ghosts
        state.main[node], state.hits[node], state.evicted[node] = remembered, 0, NOT_YET
        enter(ring, known + (MAIN if remembered else SMALL), node)
        tallies[0] += not remembered
    return hits


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
