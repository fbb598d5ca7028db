"""FIFO of prefix blocks: a flat list without leaf rule; blocks of a prompt come in from its first.

A block may stay when one before it in the prompt is gone; it counts as a hit again only with all before
it. A prompt longer than the cache pushes out its own first blocks (design, section 14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """A ring buffer of the cached blocks in the order in which they came.

    counts  int64[4], see `counts`, in blocks
    cached  bool[known]
    queue   int32[capacity], at most as long as the nodes
    oldest  int64[1], place of the oldest in the queue
    """

    counts: npt.NDArray[np.int64]
    cached: npt.NDArray[np.bool_]
    queue: npt.NDArray[np.int32]
    oldest: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int) -> State:
    """An empty cache for these prompts; `seed` is not used."""
    room = max(1, min(capacity_blocks, prompts.known))
    return State(
        counters(capacity_blocks),
        np.zeros(prompts.known, np.bool_),
        np.zeros(room, np.int32),
        np.zeros(1, np.int64),
    )


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, cached, queue, oldest = state
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    hits = low
    while hits < high and cached[prompts.nodes[hits]]:
        hits += 1
    for place in range(hits, high if counts[CAPACITY] > 0 else hits):
        node = prompts.nodes[place]
        if cached[node]:
            continue
        if counts[USED] == counts[CAPACITY]:
            cached[queue[oldest[0]]] = False
            counts[EVICTIONS] += 1
            queue[oldest[0]] = node
            oldest[0] = oldest[0] + 1 if oldest[0] + 1 < len(queue) else 0
        else:
            queue[counts[USED]] = node
            counts[USED] += 1
        cached[node] = True
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits - low)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
