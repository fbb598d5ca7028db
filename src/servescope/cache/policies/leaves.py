"""Cached prefix blocks of which only the leaf with the smallest key may go: what policies with keys share.

A policy says what a block's key becomes when a request takes it; all else is here. Blocks of running
requests and blocks with cached children are not in the heap. Equal keys go by last use, deeper ones first.
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

DEEPEST = 1 << 20  # blocks of a prompt that the order of equal keys tells apart


class Leaves(NamedTuple):
    """Cached blocks as a tree, its free leaves in a binary heap.

    counts    int64[4], see `counts`, in blocks
    users     int32[known], requests that hold a block; -1: not cached
    children  int32[known], cached blocks right after it
    keys      float64[known], set by the policy
    ties      int64[known], order of last use, deeper blocks first
    heap      int32[known], free leaves; size: int64[1], how many
    where     int32[known], place in the heap, -1: not in it
    held      int32[n], blocks that a request holds or held, from its first
    ended     int64[1], requests of `Prompts.ending` that have let go
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    keys: npt.NDArray[np.float64]
    ties: npt.NDArray[np.int64]
    heap: npt.NDArray[np.int32]
    size: npt.NDArray[np.int64]
    where: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    ended: npt.NDArray[np.int64]


def new_leaves(prompts: Prompts, capacity_blocks: int) -> Leaves:
    """An empty cache for these prompts."""
    known = prompts.known
    return Leaves(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        np.zeros(known, np.int32),
        np.zeros(known, np.float64),
        np.zeros(known, np.int64),
        np.zeros(known, np.int32),
        np.zeros(1, np.int64),
        np.full(known, -1, np.int32),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(1, np.int64),
    )


@borrowing_kernel
def _sooner(leaves: Leaves, node: int, other: int) -> bool:
    """Whether `node` goes before `other`."""
    if leaves.keys[node] != leaves.keys[other]:
        return bool(leaves.keys[node] < leaves.keys[other])
    return bool(leaves.ties[node] < leaves.ties[other])


@borrowing_kernel
def _settle(leaves: Leaves, place: int, node: int) -> None:
    """Put a node at `place` of the heap or where it belongs, up or down from there. Changes the heap."""
    heap, where, size = leaves.heap, leaves.where, leaves.size[0]
    while place > 0 and _sooner(leaves, node, heap[(place - 1) >> 1]):
        heap[place] = heap[(place - 1) >> 1]
        where[heap[place]] = place
        place = (place - 1) >> 1
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _sooner(leaves, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(leaves, heap[child], node):
            break
        heap[place] = heap[child]
        where[heap[place]] = place
        place = child
    heap[place] = node
    where[node] = place


@borrowing_kernel
def _push(leaves: Leaves, node: int) -> None:
    leaves.size[0] += 1
    _settle(leaves, leaves.size[0] - 1, node)


@borrowing_kernel
def _remove(leaves: Leaves, node: int) -> None:
    place = leaves.where[node]
    leaves.where[node] = -1
    leaves.size[0] -= 1
    last = leaves.heap[leaves.size[0]]
    if last != node:
        _settle(leaves, place, last)


@borrowing_kernel
def let_go_of_ended(leaves: Leaves, prompts: Prompts, request: int) -> None:
    """Free the blocks of earlier requests that have ended when `request` arrives. Changes `leaves`."""
    users, ended = leaves.users, leaves.ended
    done = next_ended(prompts, ended[0], request)
    while done >= 0:
        low = prompts.offsets[done]
        for place in range(low + leaves.held[done] - 1, low - 1, -1):
            node = prompts.nodes[place]
            users[node] -= 1
            if users[node] == 0 and leaves.children[node] == 0:
                _push(leaves, node)
        ended[0] += 1
        done = next_ended(prompts, ended[0], request)


@borrowing_kernel
def take_cached(leaves: Leaves, prompts: Prompts, request: int) -> int:
    """Hold the leading blocks of a prompt that are cached: how many. Changes `leaves` but for the keys."""
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    place = low
    while place < high and leaves.users[prompts.nodes[place]] >= 0:
        node = prompts.nodes[place]
        if leaves.where[node] >= 0:
            _remove(leaves, node)
        leaves.users[node] += 1
        leaves.ties[node] = request * DEEPEST + max(0, DEEPEST - prompts.depths[node])
        place += 1
    leaves.held[request] = place - low
    return int(place - low)


@borrowing_kernel
def take_new(leaves: Leaves, prompts: Prompts, request: int, node: int) -> int:
    """Cache and hold the next block of a prompt; the node evicted for it, -1 for none, -2 where all is held.

    Changes `leaves` but for the new block's key, which the policy sets.
    """
    counts = leaves.counts
    victim = -1
    if counts[USED] >= counts[CAPACITY]:
        if leaves.size[0] == 0:
            return -2
        victim = leaves.heap[0]
        drop(leaves, prompts, victim)
    leaves.users[node] = 1
    leaves.ties[node] = request * DEEPEST + max(0, DEEPEST - prompts.depths[node])
    if prompts.parents[node] >= 0:
        leaves.children[prompts.parents[node]] += 1
    counts[USED] += 1
    counts[PEAK] = max(counts[PEAK], counts[USED])
    leaves.held[request] += 1
    return int(victim)


@borrowing_kernel
def drop(leaves: Leaves, prompts: Prompts, victim: int) -> None:
    """Evict a free leaf. Changes `leaves`."""
    _remove(leaves, victim)
    leaves.users[victim] = -1
    parent = prompts.parents[victim]
    if parent >= 0:
        leaves.children[parent] -= 1
        if leaves.children[parent] == 0 and leaves.users[parent] == 0:
            _push(leaves, parent)
    leaves.counts[USED] -= 1
    leaves.counts[EVICTIONS] += 1
