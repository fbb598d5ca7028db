"""A Fenwick tree: sums of a prefix of an array whose single places change, both in log n steps.

The tree is one int64[n + 1] array; place i of the array is held at i + 1 and above. Source: P. Fenwick, A new
data structure for cumulative frequency tables, Software: Practice and Experience 24(3), 1994.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel


def new(places: int) -> npt.NDArray[np.int64]:
    """The tree of an array of so many zeros."""
    return np.zeros(places + 1, np.int64)


@kernel
def add(tree: npt.NDArray[np.int64], place: int, amount: int) -> None:
    """Add to one place of the array, from 0. Changes the tree."""
    at = place + 1
    while at < len(tree):
        tree[at] += amount
        at += at & -at


@kernel
def total_before(tree: npt.NDArray[np.int64], place: int) -> int:
    """Sum of the places before `place`."""
    at, total = place, 0
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total
