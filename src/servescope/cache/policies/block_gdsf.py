"""GDSF of prefix blocks with the leaf rule: score = clock + frequency x cost / size, all of one size.

The cost of a block is the same for all, so the score is the clock, which is the score of the last victim,
plus the uses since the block came (baseline GDFS of arXiv 2506.02634).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.leaves import Leaves, let_go_of_ended, new_leaves, take_cached, take_new
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """Cached blocks with their uses.

    counts  those of `leaves`
    leaves  a key is the score
    uses    int32[known], since the block came
    clock   float64[1], score of the last victim
    """

    counts: npt.NDArray[np.int64]
    leaves: Leaves
    uses: npt.NDArray[np.int32]
    clock: npt.NDArray[np.float64]


def new(prompts: Prompts, capacity_blocks: int, seed: int) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    leaves = new_leaves(prompts, capacity_blocks)
    return State(leaves.counts, leaves, np.zeros(prompts.known, np.int32), np.zeros(1))


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    leaves, uses, clock = state.leaves, state.uses, state.clock
    let_go_of_ended(leaves, prompts, request)
    hits = take_cached(leaves, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    for place in range(low, low + hits):
        node = prompts.nodes[place]
        uses[node] += 1
        leaves.keys[node] = clock[0] + uses[node]
    for place in range(low + hits, high):
        node = prompts.nodes[place]
        victim = take_new(leaves, prompts, request, node)
        if victim == -2:
            break
        if victim >= 0:
            clock[0] = leaves.keys[victim]
        uses[node] = 1
        leaves.keys[node] = clock[0] + 1
    return hits


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
