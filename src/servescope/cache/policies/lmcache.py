"""LMCache's cost-aware policy over prefix blocks (kv-reuse, B.4).

Per block an average, weighted 0.2 for the newest, of the tokens from the block's start to the end of the
request; score = average / (1 + idle seconds / 60) (blocks are of one size); the least goes first. Prefix
dependencies are not enforced, as LMCache states: a block may go before those after it.

Averages within 1.1 % (64 classes an octave) count as equal and go by age, which makes an eviction look at
one block a class in place of all.
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

PARAMETERS: dict[str, float] = {"weight": 0.2, "idle_s": 60.0}
OCTAVE = 64
CLASSES = 32 * OCTAVE


class State(NamedTuple):
    """Cached blocks; those that nobody holds are in the list of their class.

    counts      int64[4], see `counts`, in blocks
    users       int32[known], requests that hold a block; -1: not cached
    average     float64[known], tokens; 0 before the first use, kept over evictions
    after       int32[known + CLASSES], next younger block; lists are closed by known + class
    before      int32[known + CLASSES]
    touched_us  int64[known], when it was let go
    held        int32[n], blocks that a request holds or held, from its first
    tallies     int64[2]: requests of `Prompts.ending` that let go, highest class in use
    settings    float64[2]: weight, idle_s
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    average: npt.NDArray[np.float64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    touched_us: npt.NDArray[np.int64]
    held: npt.NDArray[np.int32]
    tallies: npt.NDArray[np.int64]
    settings: npt.NDArray[np.float64]


def new(
    prompts: Prompts, capacity_blocks: int, seed: int, *, weight: float = 0.2, idle_s: float = 60.0
) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    known = prompts.known
    ring = np.full(known + CLASSES, -1, np.int32)
    ring[known:] = np.arange(known, known + CLASSES)
    return State(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        np.zeros(known),
        ring,
        ring.copy(),
        np.zeros(known, np.int64),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(2, np.int64),
        np.array([weight, idle_s]),
    )


@borrowing_kernel
def _let_go(state: State, prompts: Prompts, request: int) -> None:
    users, after, before = state.users, state.after, state.before
    low = prompts.offsets[request]
    for place in range(low + state.held[request] - 1, low - 1, -1):
        node = prompts.nodes[place]
        users[node] -= 1
        state.touched_us[node] = prompts.ends_us[request]
        if users[node] == 0:
            kind = min(CLASSES - 1, int(np.log2(max(1.0, state.average[node])) * OCTAVE))
            state.tallies[1] = max(state.tallies[1], kind)
            root = len(users) + kind
            last = before[root]
            after[last], before[node], after[node], before[root] = node, last, root, node


@borrowing_kernel
def _evict(state: State, now: int) -> bool:
    """Evict the block with the least score; whether there was one. Changes the state."""
    known = len(state.users)
    best, least = -1, np.inf
    for kind in range(state.tallies[1] + 1):
        node = state.after[known + kind]
        if node < known:
            idle = (now - state.touched_us[node]) * 1e-6
            score = state.average[node] / (1.0 + idle / state.settings[1])
            if score < least:
                best, least = node, score
    if best < 0:
        return False
    state.after[state.before[best]], state.before[state.after[best]] = state.after[best], state.before[best]
    state.users[best] = -1
    state.counts[USED] -= 1
    state.counts[EVICTIONS] += 1
    return True


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, users, tallies = state.counts, state.users, state.tallies
    now = prompts.arrival_us[request]
    done = next_ended(prompts, tallies[0], request)
    while done >= 0:
        _let_go(state, prompts, done)
        tallies[0] += 1
        done = next_ended(prompts, tallies[0], request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and users[prompts.nodes[place]] >= 0:
        place += 1
    hits = place - low
    tokens = max(0, high - low - 1) * prompts.block_tokens + prompts.tails[request]
    for place in range(low, high):  # all that is there is held, so that nothing of it is evicted
        node = prompts.nodes[place]
        if users[node] == 0:
            state.after[state.before[node]] = state.after[node]
            state.before[state.after[node]] = state.before[node]
        users[node] += users[node] >= 0
    state.held[request] = high - low
    for place in range(low, high):
        node = prompts.nodes[place]
        if users[node] < 0:
            if counts[USED] >= counts[CAPACITY] and not _evict(state, now):
                state.held[request] = place - low
                _drop_rest(state, prompts, place, high)
                break
            users[node] = 1
            counts[USED] += 1
        sample = float(tokens - (place - low) * prompts.block_tokens)
        weight = state.settings[0] if state.average[node] > 0 else 1.0
        state.average[node] += weight * (sample - state.average[node])
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits)


@borrowing_kernel
def _drop_rest(state: State, prompts: Prompts, first: int, last: int) -> None:
    """Evict what a prompt longer than the cache cannot hold beyond its first blocks."""
    for place in range(first, last):
        node = prompts.nodes[place]
        if state.users[node] > 1:
            state.users[node] -= 1
        elif state.users[node] == 1:
            state.users[node] = -1
            state.counts[USED] -= 1
            state.counts[EVICTIONS] += 1


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
