"""Seeded draws whose n-th value depends on seed and n alone: the same on every machine and thread.

A generator is int64[2]: the seed, and how many values were drawn. A value is the output of
SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel


def generator(seed: int) -> npt.NDArray[np.int64]:
    """A fresh generator; seeds are taken modulo 2^63."""
    return np.array([seed % 2**63, 0], np.int64)


@borrowing_kernel
def mixed(word: np.uint64) -> np.uint64:
    """The 64 bits of `word` mixed, so that near words give unlike ones (finaliser of SplitMix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@borrowing_kernel
def below(draws: npt.NDArray[np.int64], count: int) -> int:
    """The next number of 0 … count - 1, all as likely up to 2^-32. Changes the generator.

    count  at least 1, less than 2^32
    """
    draws[1] += 1
    word = mixed(np.uint64(draws[0]) + np.uint64(draws[1]) * np.uint64(0x9E3779B97F4A7C15))
    return int(np.int64(((word >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)))
