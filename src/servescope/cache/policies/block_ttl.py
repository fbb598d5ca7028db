"""LRU of prefix blocks that also forgets what has been idle for `ttl_s` seconds (counted as evictions).

A block is idle from when the last request that held it let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies import block_lru
from servescope.cache.policies.counts import EVICTIONS, USED
from servescope.cache.policies.ended import next_ended
from servescope.errors import UsageError
from servescope.kernels.jit import borrowing_kernel
from servescope.units import LONGEST_S

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {"ttl_s": 600.0}


class State(NamedTuple):
    """Leaf LRU with the time of the last use.

    counts   those of `lru`
    lru      see `block_lru`
    idle_us  int64[known], since when nobody holds a block
    ttl_us   int64[1]
    """

    counts: npt.NDArray[np.int64]
    lru: block_lru.State
    idle_us: npt.NDArray[np.int64]
    ttl_us: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, ttl_s: float = 600.0) -> State:
    """An empty cache for these prompts; `seed` is not used. Raises UsageError for a negative time."""
    if not 0 <= ttl_s <= LONGEST_S:
        raise UsageError(f"ttl_s is {ttl_s:g}; it must be 0 to {LONGEST_S} seconds, for instance 600.")
    lru = block_lru.new(prompts, capacity_blocks, seed)
    idle = np.zeros(prompts.known, np.int64)
    return State(lru.counts, lru, idle, np.array([round(ttl_s * 1e6)], np.int64))


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    lru, idle_us = state.lru, state.idle_us
    users, after, before, ended = lru.users, lru.after, lru.before, lru.ended
    now = prompts.arrival_us[request]
    done = next_ended(prompts, ended[0], request)
    while done >= 0:
        block_lru.let_go(lru, prompts, done)
        low = prompts.offsets[done]
        for place in range(low, low + lru.held[done]):
            idle_us[prompts.nodes[place]] = prompts.ends_us[done]
        ended[0] += 1
        done = next_ended(prompts, ended[0], request)
    root = len(users)
    oldest = after[root]
    while oldest != root and now - idle_us[oldest] > state.ttl_us[0]:
        after[root], before[after[oldest]] = after[oldest], root
        users[oldest] = -1
        state.counts[USED] -= 1
        state.counts[EVICTIONS] += 1
        oldest = after[root]
    return block_lru.step(lru, prompts, request)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
