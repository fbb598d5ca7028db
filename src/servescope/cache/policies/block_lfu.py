"""LFU of prefix blocks with the leaf rule: the leaf with the fewest uses since it came goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servescope.cache.policies.leaves import Leaves, let_go_of_ended, new_leaves, take_cached, take_new
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}


def new(prompts: Prompts, capacity_blocks: int, seed: int) -> Leaves:
    """An empty cache for these prompts; `seed` is not used. A key is the number of uses."""
    return new_leaves(prompts, capacity_blocks)


@borrowing_kernel
def step(state: Leaves, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    let_go_of_ended(state, prompts, request)
    hits = take_cached(state, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    for place in range(low, low + hits):
        state.keys[prompts.nodes[place]] += 1
    for place in range(low + hits, high):
        if take_new(state, prompts, request, prompts.nodes[place]) == -2:
            break
        state.keys[prompts.nodes[place]] = 1
    return hits


@borrowing_kernel
def run(state: Leaves, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
