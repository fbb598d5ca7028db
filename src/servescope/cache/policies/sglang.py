"""SGLang's radix cache: a heap of free leaves by the chosen key (kv-reuse, B.2).

lru       last use
lfu       uses, then last use
fifo      when the block came
mru       last use, the latest first
filo      when the block came, the latest first
slru      blocks with at least two uses last, then last use

A match refreshes the whole path. The trace has blocks where SGLang has pages of any size, so partial last
blocks are cached with the tokens they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.leaves import Leaves, let_go_of_ended, new_leaves, take_cached, take_new
from servescope.errors import unknown_name
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}  # the key is part of the name
KEYS = {"lru": 0, "lfu": 1, "fifo": 2, "mru": 3, "filo": 4, "slru": 5}
LRU, LFU, FIFO, MRU, FILO, SLRU = range(6)
PROTECTED_USES = 2


class State(NamedTuple):
    """Cached blocks with what their keys are made of.

    counts  those of `leaves`
    leaves  see `leaves`
    uses    int32[known], since the block came
    came    int32[known], request with which it came
    kind    int64[1], value of `KEYS`
    """

    counts: npt.NDArray[np.int64]
    leaves: Leaves
    uses: npt.NDArray[np.int32]
    came: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, key: str = "lru") -> State:
    """An empty cache for these prompts; `seed` is not used. Raises UsageError for an unknown key."""
    if key not in KEYS:
        raise unknown_name("SGLang key", key, KEYS)
    leaves = new_leaves(prompts, capacity_blocks)
    uses = np.zeros(prompts.known, np.int32)
    return State(leaves.counts, leaves, uses, uses.copy(), np.array([KEYS[key]]))


@borrowing_kernel
def _key(kind: int, request: int, uses: int, came: int) -> float:
    if kind == LFU:
        return float(uses)
    if kind == FIFO:
        return float(came)
    if kind == MRU:
        return float(-request)
    if kind == FILO:
        return float(-came)
    if kind == SLRU:
        return 1.0 if uses >= PROTECTED_USES else 0.0
    return float(request)


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    leaves, uses, came, kind = state.leaves, state.uses, state.came, state.kind[0]
    let_go_of_ended(leaves, prompts, request)
    hits = take_cached(leaves, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    for place in range(low, high):
        node = prompts.nodes[place]
        if place >= low + hits:
            if take_new(leaves, prompts, request, node) == -2:
                break
            uses[node] = 0
            came[node] = request
        uses[node] += 1
        leaves.keys[node] = _key(kind, request, uses[node], came[node])
    return hits


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
