"""Where things stand in order of use: a bitmap of time slots with a Fenwick tree over its words.

Everything used takes a fresh slot, and its old one is cleared; its position in the order is the number
of taken slots from its own on. When the slots run out they are renumbered without gaps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Words = npt.NDArray[np.uint64]
ONE = np.uint64(1)
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def ones(word: np.uint64) -> int:
    """Number of set bits."""
    word -= (word >> ONE) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@kernel
def add(sums: npt.NDArray[np.int32], word: int, change: int) -> None:
    """Change how many slots of a word are taken, in the Fenwick tree `sums` (int32[words + 1], modified)."""
    place = word + 1
    while place < len(sums):
        sums[place] += change
        place += place & -place


@kernel
def taken_from(bits: Words, sums: npt.NDArray[np.int32], total: int, slot: int) -> int:
    """Number of taken slots from `slot` on, of `total` taken."""
    word = slot >> 6
    before = ones(bits[word] & ((ONE << np.uint64(slot & 63)) - ONE))
    place = word
    while place > 0:
        before += sums[place]
        place -= place & -place
    return int(total - before)


@kernel
def _turn(bits: Words, sums: npt.NDArray[np.int32], first: int, number: int, by: int) -> None:
    """Turn `number` slots from `first` on, all free (by 1) or all taken (by -1). Changes both arrays."""
    slot = first
    end = first + number
    while slot < end:
        word = slot >> 6
        low = slot & 63
        width = min(64 - low, end - slot)
        bits[word] ^= (FULL >> np.uint64(64 - width)) << np.uint64(low)
        add(sums, word, by * width)
        slot += width


@kernel
def fill(bits: Words, sums: npt.NDArray[np.int32], first: int, number: int) -> None:
    """Take `number` free slots from `first` on. Changes both arrays."""
    _turn(bits, sums, first, number, 1)


@kernel
def clear(bits: Words, sums: npt.NDArray[np.int32], first: int, number: int) -> None:
    """Free `number` taken slots from `first` on. Changes both arrays."""
    _turn(bits, sums, first, number, -1)


@kernel
def renumber(bits: Words, slots: npt.NDArray[np.int32], known: int) -> None:
    """Give slots[:known] (all taken) the numbers 0, 1, 2 … in their order. Changes `slots` alone."""
    before = np.empty(len(bits), np.int32)
    total = 0
    for word in range(len(bits)):
        before[word] = total
        total += ones(bits[word])
    for node in range(known):
        slot = slots[node]
        if slot >= 0:
            word = slot >> 6
            below = ones(bits[word] & ((ONE << np.uint64(slot & 63)) - ONE))
            slots[node] = before[word] + below
