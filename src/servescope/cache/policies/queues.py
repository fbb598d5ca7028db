"""Rings of cached blocks, in which a policy passes over what may not go: held, or with cached children.

Shared by SIEVE and S3-FIFO over prefix blocks. New blocks of a prompt enter from the last to the first, so
that in a ring a child is older than its parent.
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


class Ring(NamedTuple):
    """Cached blocks and who holds them; rings are closed by places of their own behind the blocks.

    counts    int64[4], see `counts`, in blocks
    users     int32[known], requests that hold a block; -1: not cached
    children  int32[known], cached blocks right after it
    after     int32[known + rings], next younger block
    before    int32[known + rings], next older block
    held      int32[n], blocks that a request holds or held, from its first
    ended     int64[1], requests of `Prompts.ending` that have let go
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    ended: npt.NDArray[np.int64]


def new_ring(prompts: Prompts, capacity_blocks: int, rings: int) -> Ring:
    """An empty cache for these prompts."""
    known = prompts.known
    ends = np.full(known + rings, -1, np.int32)
    ends[known:] = np.arange(known, known + rings)
    return Ring(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        np.zeros(known, np.int32),
        ends,
        ends.copy(),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(1, np.int64),
    )


@borrowing_kernel
def enter(ring: Ring, end: int, node: int) -> None:
    """Put a block at the young end of the ring that `end` closes. Changes the ring."""
    last = ring.before[end]
    ring.after[last], ring.before[node], ring.after[node], ring.before[end] = node, last, end, node


@borrowing_kernel
def leave(ring: Ring, node: int) -> None:
    """Take a block out of its ring. Changes the ring."""
    ring.after[ring.before[node]] = ring.after[node]
    ring.before[ring.after[node]] = ring.before[node]


@borrowing_kernel
def take_leading(ring: Ring, prompts: Prompts, request: int) -> int:
    """Free what ended before `request`, hold its leading cached blocks: how many. Changes the ring."""
    users, ended = ring.users, ring.ended
    done = next_ended(prompts, ended[0], request)
    while done >= 0:
        for place in range(prompts.offsets[done], prompts.offsets[done] + ring.held[done]):
            users[prompts.nodes[place]] -= 1
        ended[0] += 1
        done = next_ended(prompts, ended[0], request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and users[prompts.nodes[place]] >= 0:
        users[prompts.nodes[place]] += 1
        place += 1
    ring.held[request] = place - low
    return int(place - low)


@borrowing_kernel
def admit(ring: Ring, prompts: Prompts, request: int, node: int) -> None:
    """Cache and hold the next block of a prompt, for which there is room. Changes the ring."""
    counts = ring.counts
    ring.users[node] = 1
    if prompts.parents[node] >= 0:
        ring.children[prompts.parents[node]] += 1
    ring.held[request] += 1
    counts[USED] += 1
    counts[PEAK] = max(counts[PEAK], counts[USED])


@borrowing_kernel
def may_go(ring: Ring, node: int) -> bool:
    """Whether a cached block is free and has no cached child."""
    return bool(ring.users[node] == 0 and ring.children[node] == 0)


@borrowing_kernel
def full(ring: Ring) -> bool:
    """Whether there is no room for one more block."""
    return bool(ring.counts[USED] >= ring.counts[CAPACITY])


@borrowing_kernel
def forget(ring: Ring, prompts: Prompts, node: int) -> None:
    """Evict a block. Changes the ring."""
    leave(ring, node)
    ring.users[node] = -1
    if prompts.parents[node] >= 0:
        ring.children[prompts.parents[node]] -= 1
    ring.counts[USED] -= 1
    ring.counts[EVICTIONS] += 1
