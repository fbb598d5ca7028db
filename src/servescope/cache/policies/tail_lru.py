"""T-LRU (arXiv 2510.15152; kv-reuse, B.2): first to go is what a conversation's next turn can do without.

After a request of L tokens, prompt and answer, the next prompt of the conversation is taken to add
`next_tokens`, and up to `tolerated_tokens` of it may be computed anew. Blocks beyond the first
L + next_tokens - tolerated_tokens tokens are excess: they go before all others. Within the excess, and
within the rest, the least recently used leaf goes first. A block is excess by the last request that took it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.leaves import Leaves, let_go_of_ended, new_leaves, take_cached, take_new
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {"tolerated_tokens": 1024, "next_tokens": 256}
EXCESS, REST = 0.0, 1.0


class State(NamedTuple):
    """Cached blocks by whether a conversation can do without them.

    counts  those of `leaves`
    leaves  a key is EXCESS or REST
    spare   int64[1], tokens that may be missing at the end of a conversation
    """

    counts: npt.NDArray[np.int64]
    leaves: Leaves
    spare: npt.NDArray[np.int64]


def new(
    prompts: Prompts,
    capacity_blocks: int,
    seed: int,
    *,
    tolerated_tokens: float = 1024,
    next_tokens: float = 256,
) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    leaves = new_leaves(prompts, capacity_blocks)
    return State(leaves.counts, leaves, np.array([int(tolerated_tokens - next_tokens)]))


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    leaves = state.leaves
    let_go_of_ended(leaves, prompts, request)
    hits = take_cached(leaves, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    length = max(0, high - low - 1) * prompts.block_tokens + prompts.tails[request] + prompts.outputs[request]
    kept = (length - state.spare[0]) // prompts.block_tokens
    for place in range(low, high):
        node = prompts.nodes[place]
        if place >= low + hits and take_new(leaves, prompts, request, node) == -2:
            break
        leaves.keys[node] = EXCESS if place - low >= kept else REST
    return hits


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
