"""T-LRU (arXiv 2510.15152; kv-reuse, B.2): first to go is what a conversation's next turn can do without.

After a request of L tokens, prompt and answer, the next prompt of the conversation is taken to add
`next_tokens`, and up to `tolerated_tokens` of it may be computed anew. Blocks beyond the first
L + next_tokens - tolerated_tokens tokens are excess: they go before all others. Within the excess, and
within the rest, the least recently used leaf goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {"tolerated_tokens": 1024, "next_tokens": 256}
EXCESS, REST = 0, 1


class State(NamedTuple):
    """Cached blocks; those that nobody holds are in one of two rings, each closed by one more place.

    counts    int64[4], see `counts`, in blocks
    users     int32[known], requests that hold a block; -1: not cached
    children  int32[known], cached blocks right after it
    after     int32[known + 2], next younger block; the rings end in known + EXCESS and known + REST
    before    int32[known + 2]
    held      int32[n], blocks that a request holds or held, from its first
    ended     int64[1], requests of `Prompts.ending` that have let go
    spare     int64[1], tokens that may be missing at the end of a conversation
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    ended: npt.NDArray[np.int64]
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
    known = prompts.known
    ring = np.full(known + 2, -1, np.int32)
    ring[known:] = known, known + 1
    return State(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        np.zeros(known, np.int32),
        ring,
        ring.copy(),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(1, np.int64),
        np.array([int(tolerated_tokens - next_tokens)]),
    )


@borrowing_kernel
def _let_go(state: State, prompts: Prompts, request: int) -> None:
    users, after, before = state.users, state.after, state.before
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    length = max(0, high - low - 1) * prompts.block_tokens + prompts.tails[request] + prompts.outputs[request]
    kept = (length - state.spare[0]) // prompts.block_tokens
    for place in range(low + state.held[request] - 1, low - 1, -1):
        node = prompts.nodes[place]
        users[node] -= 1
        if users[node] == 0:
            root = len(users) + (EXCESS if place - low >= kept else REST)
            last = before[root]
            after[last], before[node], after[node], before[root] = node, last, root, node


@borrowing_kernel
def _evict(state: State, prompts: Prompts) -> bool:
    """Evict the oldest leaf of the excess, or of the rest; whether there was one. Changes the state."""
    known = len(state.users)
    for ring in (EXCESS, REST):
        victim = state.after[known + ring]
        while victim < known and state.children[victim] > 0:
            victim = state.after[victim]
        if victim < known:
            state.after[state.before[victim]] = state.after[victim]
            state.before[state.after[victim]] = state.before[victim]
            state.users[victim] = -1
            if prompts.parents[victim] >= 0:
                state.children[prompts.parents[victim]] -= 1
            state.counts[USED] -= 1
            state.counts[EVICTIONS] += 1
            return True
    return False


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, users, ended = state.counts, state.users, state.ended
    now = prompts.arrival_us[request]
    while ended[0] < request:
        done = prompts.ending[ended[0]]
        if done >= request or prompts.ends_us[done] > now:
            break
        _let_go(state, prompts, done)
        ended[0] += 1
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and users[prompts.nodes[place]] >= 0:
        node = prompts.nodes[place]
        if users[node] == 0:
            state.after[state.before[node]] = state.after[node]
            state.before[state.after[node]] = state.before[node]
        users[node] += 1
        place += 1
    hits = place - low
    while place < high:
        if counts[USED] >= counts[CAPACITY] and not _evict(state, prompts):
            break
        node = prompts.nodes[place]
        users[node] = 1
        if prompts.parents[node] >= 0:
            state.children[prompts.parents[node]] += 1
        counts[USED] += 1
        place += 1
    state.held[request] = place - low
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
