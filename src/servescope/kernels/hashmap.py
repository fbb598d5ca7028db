"""An open-addressing map from uint64 keys to int64 values, as plain arrays.

The map is three arrays of one power-of-two length: keys uint64, values int64, and the value
`EMPTY` marks a free slot. Kernels that insert stop when the map is two thirds full and return
where they stopped; the caller grows the map with `grown` and calls again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import inlined, kernel

EMPTY = np.int64(-(2**63))
SMALLEST = 1 << 10


def new(capacity: int = SMALLEST) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """An empty map of at least `capacity` slots: keys, values."""
    slots = SMALLEST
    while slots < capacity:
        slots *= 2
    return np.zeros(slots, np.uint64), np.full(slots, EMPTY, np.int64)


@inlined
def start_of(keys: npt.NDArray[np.uint64], key: np.uint64) -> np.uint64:
    """The slot at which the search for `key` starts."""
    mixed = key
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed & np.uint64(len(keys) - 1)


@inlined
def slot_of(keys: npt.NDArray[np.uint64], values: npt.NDArray[np.int64], key: np.uint64) -> np.int64:
    """The slot that holds `key`, or the free slot where it belongs (its value is EMPTY).

    keys, values  the map, not modified, with at least one free slot
    """
    slot = start_of(keys, key)
    while values[slot] != EMPTY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & np.uint64(len(keys) - 1)
    return np.int64(slot)


@kernel
def refill(
    old_keys: npt.NDArray[np.uint64],
    old_values: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint64],
    values: npt.NDArray[np.int64],
) -> None:
    """Copy all entries of the old map into the new, empty one (modified)."""
    for index in range(len(old_keys)):
        if old_values[index] != EMPTY:
            slot = slot_of(keys, values, old_keys[index])
            keys[slot] = old_keys[index]
            values[slot] = old_values[index]


def grown(
    keys: npt.NDArray[np.uint64], values: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The same entries in a map of twice the slots; the old arrays are not modified."""
    wider = new(2 * len(keys))
    refill(keys, values, *wider)
    return wider
