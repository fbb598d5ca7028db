"""What an access needs where objects may shrink: the largest sum that passed over its object as it waited.

Between two accesses of an object the sizes from the youngest down to it may fall again, when one that came
after it shrinks. It left if the sum passed the capacity once, so its need is the largest sum of that time. A
segment tree over slots in order of last access holds, for each object, that sum and its largest value; a
change is a number added to a range of slots, left at the nodes above it as (total, largest running total)
until it is passed on. Slow twin: the replay of `policies/lru.py` at each capacity.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Longs = npt.NDArray[np.int64]


@kernel
def _compose(total: Longs, most: Longs, node: int, amount: int, largest: int) -> None:
    """Let a node bear what is added: `amount` in all, at most `largest` on the way. Changes the tree."""
    most[node] = max(most[node], total[node] + largest)
    total[node] += amount


@kernel
def _pass_on(total: Longs, most: Longs, node: int) -> None:
    """Move what a node bears to its two children. Changes the tree."""
    if total[node] != 0 or most[node] != 0:
        _compose(total, most, 2 * node, total[node], most[node])
        _compose(total, most, 2 * node + 1, total[node], most[node])
        total[node] = most[node] = 0


@kernel
def _descend(total: Longs, most: Longs, leaves: int, slot: int, before: int, after: int) -> int:
    """Add `before` to slots up to this one and `after` to those beyond; the leaf, its path passed on."""
    node, low, width = 1, 0, leaves
    while node < leaves:
        _pass_on(total, most, node)
        width //= 2
        if slot < low + width:
            _compose(total, most, 2 * node + 1, after, max(after, 0))
            node = 2 * node
        else:
            _compose(total, most, 2 * node, before, max(before, 0))
            node, low = 2 * node + 1, low + width
    return node


@kernel
def _close_up(total: Longs, most: Longs, leaves: int, owner: npt.NDArray[np.int32], place: Longs) -> int:
    """Move all objects to the first slots in their order; how many there are. Changes all."""
    for node in range(1, leaves):
        _pass_on(total, most, node)
    used = 0
    for slot in range(leaves):
        item = owner[slot]
        if item >= 0:
            total[leaves + used], most[leaves + used] = total[leaves + slot], most[leaves + slot]
            owner[slot] = -1
            owner[used], place[item] = item, used
            used += 1
    return used


@kernel
def peak_needs(objects: npt.NDArray[np.int32], sizes: Longs, known: int) -> npt.NDArray[np.int64]:
    """int64[n]: largest sum from the youngest object down to this one as it waited; -1: first access.

    A leaf holds its object's sum (total) and the largest so far (most).
    """
    leaves = 2
    while leaves < 2 * known + 2:
        leaves *= 2
    total, most = np.zeros(2 * leaves, np.int64), np.zeros(2 * leaves, np.int64)
    owner = np.full(leaves, -1, np.int32)
    place = np.full(known, -1, np.int64)
    held = np.zeros(known, np.int64)
    found = np.empty(len(objects), np.int64)
    used = 0
    for number in range(len(objects)):
        item, size = objects[number], sizes[number]
        if used == leaves:
            used = _close_up(total, most, leaves, owner, place)
        slot = place[item]
        if slot < 0:
            found[number] = -1
            _compose(total, most, 1, size, size)
        else:
            leaf = _descend(total, most, leaves, slot, size - held[item], size)
            found[number] = most[leaf]
            owner[slot] = -1
        leaf = _descend(total, most, leaves, used, 0, 0)
        total[leaf] = most[leaf] = size
        held[item], place[item], owner[used] = size, used, item
        used += 1
    return found
