"""Several ordered lists of dense items in two arrays: each list is a ring closed by a root of its own.

`after[root]` is the oldest item and `before[root]` the youngest; an empty list's root points at itself.
An item is in one list at most, so one pair of arrays holds all lists of a cache. Rows of 16 or 32 bytes that
hold size and links together made LRU a seventh faster at most (1.5 M objects), so the arrays are kept plain.
Places are read without a sign: Numba then leaves out the test for negative ones, a tenth of LRU's time.
Slow twin: a Python list, in `tests/kernels/test_linked_list.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel

Place = int | np.integer[Any]
Places = npt.NDArray[np.int32]


def rings(items: int, lists: int) -> tuple[Places, Places]:
    """`after` and `before` of empty lists, int32[items + lists] each; list k has the root `items + k`.

    Raises OverflowError above 2^31 places.
    """
    if items + lists > np.iinfo(np.int32).max:
        raise OverflowError(f"a linked list holds fewer than 2^31 items, and {items:,} are asked for")
    after = np.arange(items + lists, dtype=np.int32)
    return after, after.copy()


@borrowing_kernel
def append(after: Places, before: Places, root: Place, item: Place) -> None:
    """Make an item, which must be in no list, the youngest. Changes the lists."""
    own, end = np.uint32(item), np.uint32(root)
    youngest = np.uint32(before[end])
    after[youngest] = own
    before[own] = youngest
    after[own] = end
    before[end] = own


@borrowing_kernel
def remove(after: Places, before: Places, item: Place) -> None:
    """Take an item out of the list that it is in; its own two links keep their values. Changes the lists."""
    own = np.uint32(item)
    older, younger = np.uint32(before[own]), np.uint32(after[own])
    after[older] = younger
    before[younger] = older


@borrowing_kernel
def is_empty(after: Places, root: Place) -> bool:
    """Whether a list has no item."""
    return bool(after[root] == root)
