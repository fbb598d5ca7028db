"""A set of whole numbers 0 … n - 1 that knows its largest member, as three levels of 64-bit words.

Adding and removing cost a few instructions, the largest member three steps down: a priority queue for
keys such as request numbers (up to 2^24 of them a word of the top level).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel

Words = npt.NDArray[np.uint64]
ONE = np.uint64(1)
SIX = np.uint64(6)
LOW = np.uint64(63)


def empty_places(number: int) -> tuple[Words, Words, Words]:
    """An empty set of numbers below `number`: its levels, the finest first."""
    fine = max(1, -(-number // 64))
    middle = -(-fine // 64)
    return np.zeros(fine, np.uint64), np.zeros(middle, np.uint64), np.zeros(-(-middle // 64), np.uint64)


@borrowing_kernel
def add_place(levels: tuple[Words, Words, Words], number: int) -> None:
    """Put a number into the set (modified)."""
    fine, middle, top = levels
    place = np.uint64(number)
    fine[place >> SIX] |= ONE << (place & LOW)
    place >>= SIX
    middle[place >> SIX] |= ONE << (place & LOW)
    place >>= SIX
    top[place >> SIX] |= ONE << (place & LOW)


@borrowing_kernel
def drop_place(levels: tuple[Words, Words, Words], number: int) -> None:
    """Take a number out of the set (modified)."""
    fine, middle, top = levels
    place = np.uint64(number)
    fine[place >> SIX] &= ~(ONE << (place & LOW))
    if fine[place >> SIX] == 0:
        place >>= SIX
        middle[place >> SIX] &= ~(ONE << (place & LOW))
        if middle[place >> SIX] == 0:
            place >>= SIX
            top[place >> SIX] &= ~(ONE << (place & LOW))


@borrowing_kernel
def highest_bit(word: np.uint64) -> np.uint64:
    """Place of the highest set bit of a word that is not 0."""
    place = np.uint64(0)
    for step in (32, 16, 8, 4, 2, 1):
        shift = np.uint64(step)
        if word >> shift:
            word >>= shift
            place += shift
    return place


@borrowing_kernel
def largest_place(levels: tuple[Words, Words, Words]) -> int:
    """The largest member, -1 in an empty set."""
    fine, middle, top = levels
    for word in range(len(top) - 1, -1, -1):
        if top[word]:
            place = (np.uint64(word) << SIX) + highest_bit(top[word])
            place = (place << SIX) + highest_bit(middle[place])
            place = (place << SIX) + highest_bit(fine[place])
            return int(np.int64(place))
    return -1
