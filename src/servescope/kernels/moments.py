"""Exact sums of squares in two 64-bit words, so that merging is associative to the last bit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import inlined

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@inlined
def add_words(words: npt.NDArray[np.uint64], high: np.uint64, low: np.uint64) -> None:
    """Add a 128-bit number to words, uint64[2] (high, low), modified."""
    total = words[1] + low
    words[0] += high
    if total < low:
        words[0] += np.uint64(1)
    words[1] = total


@inlined
def square_of(value: int) -> tuple[np.uint64, np.uint64]:
    """The square of a value of 0 … 2^63 - 1: high and low word."""
    a = np.uint64(value) >> _HALF
    b = np.uint64(value) & _LOW
    cross = a * b  # counts twice, at 2^32
    last = b * b
    low = last + ((cross & np.uint64(0x7FFFFFFF)) << np.uint64(33))
    return a * a + (cross >> np.uint64(31)) + np.uint64(low < last), low


@inlined
def add_square(words: npt.NDArray[np.uint64], value: int) -> None:
    """Add the square of a value of 0 … 2^63 - 1 to words, uint64[2] (high, low), modified."""
    high, low = square_of(value)
    add_words(words, high, low)


def added(words: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> None:
    """Add uint64[…, 2] to uint64[…, 2], which is modified."""
    low = words[..., 1] + other[..., 1]
    words[..., 0] += other[..., 0] + (low < other[..., 1]).astype(np.uint64)
    words[..., 1] = low


def as_int(words: npt.NDArray[np.uint64]) -> int:
    """The number in words, uint64[2], as a Python integer."""
    return (int(words[0]) << 64) | int(words[1])


def deviation(n: int, total: int, squares: int, *, sample: bool = False) -> float | None:
    """Standard deviation from exact integer sums, population or sample; None when undefined.

    n, total, squares  count, sum and sum of squares of whole numbers
    """
    if n < 1 + sample:
        return None
    spread = n * squares - total * total  # exact: no cancellation
    return math.sqrt(spread / (n * (n - sample)))


def variation(n: int, total: int, squares: int, *, sample: bool = False) -> float | None:
    """Coefficient of variation, deviation / mean; None when undefined or the mean is 0."""
    spread = deviation(n, total, squares, sample=sample)
    return None if spread is None or not total else spread * n / total
