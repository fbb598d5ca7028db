"""Counts of sparse cells: an open-addressing map from a packed key to how often it was met.

For grids with many possible and few filled cells, such as a histogram in every cell of a grid of
lengths. 16 bytes a slot, at most two thirds of them filled.

    held = Cells()
    held.add(keys)                 # uint64[n]
    held.merge(later)              # any order gives the same counts
    keys, counts = held.sorted()   # by key

Inside a kernel of one's own, `held.store` is passed as an argument and `count(store, key, times)` adds;
before each row `has_room(store, n)` must be true for the `n` keys that it may add, else the kernel
returns where it stopped, the caller runs `held.grow()` and calls again. Slow twin: a dict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels import hashmap
from servescope.kernels.jit import borrowing_kernel, kernel

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


class Store(NamedTuple):
    """The arrays of `Cells`.

    keys    uint64[slots]
    counts  int64[slots], `hashmap.EMPTY` where the slot is free
    used    int64[1], cells in use
    """

    keys: Keys
    counts: Ints
    used: Ints


@borrowing_kernel
def has_room(store: Store, more: int) -> bool:
    """Whether this many more cells fit."""
    return bool(3 * (store.used[0] + more) <= 2 * len(store.keys))


@borrowing_kernel
def count(store: Store, key: np.uint64, times: int) -> None:
    """Add to a cell. Changes the store, which must have room."""
    slot = hashmap.slot_of(store.keys, store.counts, key)
    if store.counts[slot] == hashmap.EMPTY:
        store.keys[slot] = key
        store.counts[slot] = 0
        store.used[0] += 1
    store.counts[slot] += times


@kernel
def _add(store: Store, keys: Keys, times: Ints, row: int) -> int:
    """Add `times` to each key from `row` on, free slots (EMPTY) left out; the row reached when full."""
    while row < len(keys) and has_room(store, 1):
        if times[row] != hashmap.EMPTY:
            count(store, keys[row], times[row])
        row += 1
    return row


class Cells:
    """Counts by packed key, see the module. Changed by `add`, `merge`, `grow`.

    store  the arrays; replaced when they grow
    """

    def __init__(self) -> None:
        self.store = Store(*hashmap.new(), np.zeros(1, np.int64))

    def grow(self) -> None:
        """Twice the room."""
        keys, counts = hashmap.grown(self.store.keys, self.store.counts)
        self.store = Store(keys, counts, self.store.used)

    def add(self, keys: Keys, times: Ints | None = None) -> None:
        """Count keys, uint64[n], each once or `times`, int64[n]."""
        times = np.ones(len(keys), np.int64) if times is None else times
        row = _add(self.store, keys, times, 0)
        while row < len(keys):
            self.grow()
            row = _add(self.store, keys, times, row)

    def merge(self, later: Cells) -> None:
        """Add all counts of another; it is not modified."""
        self.add(later.store.keys, later.store.counts)

    def sorted(self) -> tuple[Keys, Ints]:
        """Keys in ascending order, and their counts."""
        at = np.flatnonzero(self.store.counts != hashmap.EMPTY)
        at = at[np.argsort(self.store.keys[at])]
        return self.store.keys[at], self.store.counts[at]
