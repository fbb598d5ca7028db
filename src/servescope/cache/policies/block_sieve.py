"""SIEVE of prefix blocks with the leaf rule (Zhang et al., NSDI 2024).

A hand goes from old to young. A block that was hit since it last came by loses the mark and stays; one
that may not go (held, or with cached children) is passed over as it is; the first other one goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import USED
from servescope.cache.policies.queues import (
    Ring,
    admit,
    enter,
    forget,
    full,
    may_go,
    new_ring,
    take_leading,
)
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """One ring with marks.

    counts  those of `ring`
    ring    see `queues`
    marked  bool[known], hit since the hand last came by
    hand    int64[1], where the search goes on; the closing place: from the oldest
    """

    counts: npt.NDArray[np.int64]
    ring: Ring
    marked: npt.NDArray[np.bool_]
    hand: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    ring = new_ring(prompts, capacity_blocks, 1)
    return State(ring.counts, ring, np.zeros(prompts.known, np.bool_), np.array([prompts.known]))


@borrowing_kernel
def _evict(state: State, prompts: Prompts) -> bool:
    """Evict where the hand finds a block; whether it did within two rounds. Changes the state."""
    ring, known = state.ring, len(state.marked)
    node = state.hand[0]
    for _ in range(2 * ring.counts[USED] + 2):
        if node == known:
            node = ring.after[known]
            continue
        following = ring.after[node]
        if may_go(ring, node):
            if not state.marked[node]:
                forget(ring, prompts, node)
                state.hand[0] = following
                return True
            state.marked[node] = False
        node = following
    state.hand[0] = node
    return False


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    ring = state.ring
    hits = take_leading(ring, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    for place in range(low, low + hits):
        state.marked[prompts.nodes[place]] = True
    place = low + hits
    while place < high:
        if full(ring) and not _evict(state, prompts):
            break
        admit(ring, prompts, request, prompts.nodes[place])
        place += 1
    for fresh in range(place - 1, low + hits - 1, -1):
        enter(ring, len(state.marked), prompts.nodes[fresh])
        state.marked[prompts.nodes[fresh]] = False
    return hits


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
