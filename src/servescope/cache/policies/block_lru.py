"""LRU of prefix blocks: the least recently used leaf goes first, of equal ones the deeper (design, 14).

A request holds the blocks of its prompt until it ends. It lets go of them from the last to the first, so
the order of the list is the order of last use, deeper blocks first, and the oldest block is always a leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.cache.policies.ended import next_ended
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

# drop_own: 1 = a prompt longer than the cache also loses the last of the blocks that it brought in itself,
# as in kvcache-simulator 0.1.3; 0 = it keeps as many of its first blocks as fit
PARAMETERS: dict[str, float] = {"drop_own": 0}


class State(NamedTuple):
    """Cached blocks; those that nobody holds are in a ring in order of use, closed by one more place.

    counts  int64[4], see `counts`, in blocks
    users   int32[known], requests that hold a block; -1: not cached
    after   int32[known + 1], next younger block in the ring
    before  int32[known + 1], next older block
    held    int32[n], blocks that a request holds or held, from its first
    ended   int64[1], requests of `Prompts.ending` that have let go
    drop    bool[1], `drop_own`
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    ended: npt.NDArray[np.int64]
    drop: npt.NDArray[np.bool_]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, drop_own: float = 0) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    known = prompts.known
    ring = np.full(known + 1, known, np.int32)
    return State(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        ring,
        ring.copy(),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(1, np.int64),
        np.array([drop_own > 0]),
    )


@borrowing_kernel
def let_go(state: State, prompts: Prompts, request: int) -> None:
    """Put the blocks that only this request holds into the ring, the last first. Changes the state."""
    users, after, before = state.users, state.after, state.before
    root = len(users)
    low = prompts.offsets[request]
    for place in range(low + state.held[request] - 1, low - 1, -1):
        node = prompts.nodes[place]
        users[node] -= 1
        if users[node] == 0:
            last = before[root]
            after[last], before[node], after[node], before[root] = node, last, root, node


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, users, after, before, held, ended, drop = state
    root = len(users)
    done = next_ended(prompts, ended[0], request)
    while done >= 0:
        let_go(state, prompts, done)
        ended[0] += 1
        done = next_ended(prompts, ended[0], request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and users[prompts.nodes[place]] >= 0:
        node = prompts.nodes[place]
        if users[node] == 0:
            after[before[node]], before[after[node]] = after[node], before[node]
        users[node] += 1
        place += 1
    hits = place - low
    while place < high:
        if counts[USED] == counts[CAPACITY]:
            victim = after[root]
            if victim == root:  # all is held: the prompt keeps its first blocks
                if drop[0] and place > low + hits:
                    place -= 1
                    users[prompts.nodes[place]] = -1
                    counts[USED] -= 1
                    counts[EVICTIONS] += 1
                break
            after[root], before[after[victim]] = after[victim], root
            users[victim] = -1
            counts[EVICTIONS] += 1
        else:
            counts[USED] += 1
        users[prompts.nodes[place]] = 1
        place += 1
    held[request] = place - low
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
