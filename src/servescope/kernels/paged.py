"""Log histograms of very many keys: a short list first, then pages of 16 bins where they are touched.

Keys are dense whole numbers (a user's code, a pair's place). The first 15 values of a key are kept
as a list of bin indices in its 32 bytes; the sixteenth moves them to pages of 16 bins, 64 bytes each,
found by (key, page) in one table (16 to 24 bytes a page). A bin is uint32; what does not fit is carried
to a page of its own that counts in units of 2^32, so counts are exact up to 2^64.

    held = Paged(keys=len(users))           # keys may grow: held.reach(keys)
    held.add(keys, bins)                     # int64[n] each; bins from `histogram.log_bin`
    held.merge(later)                        # any order gives the same counts
    held.totals()                            # int64[keys], values of each key
    held.quantiles((0.5, 0.9), whole=True)   # float64[keys, 2], NaN where a key has no value
    held.ranked((0.5,), least=10)            # the same in whole numbers, of keys with enough values
    held.entries()                           # int64[n] each: key, bin, count of all filled bins

Inside a kernel of one's own, `held.store` is passed as an argument and `add_one(store, key, bin)`
adds a value; before each, `has_room(store)` must be true, else the kernel returns where it stopped,
the caller runs `held.grow()` and calls again with the new `held.store`. `add_block` adds up to AHEAD
values at once, faster, and needs `has_room(store, AHEAD)`. Slow twin: tests/reference/paged.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import REAL_CENTRES, WHOLE_CENTRES
from servescope.kernels.jit import kernel
from servescope.kernels.pages import (
    AHEAD,
    EARLY,
    HIGH,
    LOW,
    PAGE_BINS,
    PAGED,
    PAGES,
    SMALLEST,
    USED,
    Store,
    add,
    add_block,
    add_one,
    has_room,
    merge_lists,
    merge_pages,
    refill,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AHEAD", "Paged", "Store", "add_block", "add_one", "between", "has_room"]

Ints = npt.NDArray[np.int64]


@kernel
def _totals(store: Store) -> npt.NDArray[np.int64]:
    """Values of every key: int64[keys]."""
    early = store.early
    totals = np.zeros(len(early), np.int64)
    for key in range(len(early)):
        if early[key, 0] != PAGED:
            totals[key] = early[key, 0]
    for row in range(store.facts[USED]):
        unit = np.int64(32) * np.int64(store.owners[row] & np.uint64(1))
        key = int(store.owners[row] >> np.uint64(1)) // PAGES
        for place in range(PAGE_BINS):
            totals[key] += np.int64(store.counts[row, place]) << unit
    return totals


@kernel
def _histogram(
    store: Store, order: npt.NDArray[np.int64], at: int, key: int, counts: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """Lay out one key in counts, int64[PAGES * 16], all 0 before.

    order  int64[rows], rows of pages by owner; at: the first that is not of a lower key
    returns the next `at`, and the first and the last + 1 bin that may be filled
    """
    low, high = PAGES * PAGE_BINS, 0
    early, owners = store.early, store.owners
    if early[key, 0] != PAGED:
        for i in range(1, early[key, 0] + 1):
            place = int(np.int64(early[key, i]))
            counts[place] += 1
            low, high = min(low, place), max(high, place + 1)
        return at, low, high
    while at < len(order):
        page = int(owners[order[at]] >> np.uint64(1))
        if page // PAGES != key:
            break
        first = page % PAGES * PAGE_BINS
        unit = np.int64(32) * np.int64(owners[order[at]] & np.uint64(1))
        for place in range(PAGE_BINS):
            counts[first + place] += np.int64(store.counts[order[at], place]) << unit
        low, high = min(low, first), max(high, first + PAGE_BINS)
        at += 1
    return at, low, high


@kernel
def _entries(store: Store, order: npt.NDArray[np.int64], write: bool, found: npt.NDArray[np.int64]) -> int:
    """Number of filled bins; with `write` they are put in found, int64[3, n] (key, bin, count)."""
    counts = np.zeros(PAGES * PAGE_BINS, np.int64)
    at, n = 0, 0
    for key in range(store.facts[LOW], store.facts[HIGH]):
        at, low, high = _histogram(store, order, at, key, counts)
        for place in range(low, high):
            if counts[place]:
                if write:
                    found[0, n], found[1, n], found[2, n] = key, place, counts[place]
                n += 1
                counts[place] = 0
    return n


@kernel
def _ranked(
    store: Store,
    order: npt.NDArray[np.int64],
    q: npt.NDArray[np.float64],
    least: int,
    keys: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
    bins: npt.NDArray[np.uint16],
) -> int:
    """Fill the first rows of keys, totals and bins as `Paged.ranked` returns them; their number."""
    counts = np.zeros(PAGES * PAGE_BINS, np.int64)
    at, row = 0, 0
    for key in range(store.facts[LOW], store.facts[HIGH]):
        at, low, high = _histogram(store, order, at, key, counts)
        n = 0
        for place in range(low, high):
            n += counts[place]
        here, below = low, 0  # values in bins before `here`
        for i in range(len(q) if n >= least else 0):
            rank = int((n - 1) * q[i])
            while below + counts[here] <= rank:
                below += counts[here]
                here += 1
            after, upto = here, below + counts[here]
            while upto <= min(rank + 1, n - 1):
                after += 1
                upto += counts[after]
            bins[row, i, 0], bins[row, i, 1] = here, after
        if n >= least:
            keys[row], totals[row] = key, n
            row += 1
        for place in range(low, high):
            counts[place] = 0
    return row


def between(
    totals: Ints, bins: npt.NDArray[np.uint16], q: Sequence[float], *, whole: bool = False
) -> npt.NDArray[np.float64]:
    """Quantiles from the bins of `Paged.ranked` by the rule of `histogram.quantile`: float64[n, len(q)]."""
    exact = (totals[:, None] - 1) * np.asarray(q, np.float64)
    first, after = np.moveaxis((WHOLE_CENTRES if whole else REAL_CENTRES)[bins], -1, 0)
    found: npt.NDArray[np.float64] = first + (exact - np.floor(exact)) * (after - first)
    return found


class Paged:
    """Log histograms by key, see the module. Changed by `reach`, `add`, `merge`, `grow`.

    store  the arrays; replaced when they grow
    """

    def __init__(self, keys: int = 0) -> None:
        self.store = Store(
            np.zeros((keys, EARLY + 1), np.uint16),
            np.zeros(2 * SMALLEST, np.int32),
            np.zeros(SMALLEST, np.uint64),
            np.zeros((SMALLEST, PAGE_BINS), np.uint32),
            np.array([0, 2**62, 0], np.int64),
        )

    @property
    def keys(self) -> int:
        """Number of keys there is room for."""
        return len(self.store.early)

    @property
    def pages(self) -> int:
        """Number of pages in use."""
        return int(self.store.facts[USED])

    def reach(self, keys: int) -> None:
        """Make room for keys 0 … keys - 1."""
        if keys > self.keys:
            early = np.zeros((keys, EARLY + 1), np.uint16)
            early[: self.keys] = self.store.early
            self.store = self.store._replace(early=early)

    def grow(self) -> None:
        """Twice the room for pages."""
        old = self.store
        room = 2 * len(old.owners)
        owners, counts = np.zeros(room, np.uint64), np.zeros((room, PAGE_BINS), np.uint32)
        owners[: self.pages] = old.owners[: self.pages]
        counts[: self.pages] = old.counts[: self.pages]
        self.store = Store(old.early, np.zeros(2 * room, np.int32), owners, counts, old.facts)
        refill(self.store)

    def add(self, keys: Ints, bins: Ints) -> None:
        """Add values: int64[n] keys (below `self.keys`, not checked) and int64[n] log bins."""
        row = add(self.store, keys, bins, 0)
        while row < len(keys):
            self.grow()
            row = add(self.store, keys, bins, row)

    def merge(self, later: Paged) -> None:
        """Add all values of another; it is not modified."""
        self.reach(later.keys)
        low, high = int(later.store.facts[LOW]), int(later.store.facts[HIGH])
        key = merge_lists(self.store, later.store, low)
        while key < high:
            self.grow()
            key = merge_lists(self.store, later.store, key)
        row = merge_pages(self.store, later.store, 0)
        while row < later.pages:
            self.grow()
            row = merge_pages(self.store, later.store, row)
        self.store.facts[LOW] = min(self.store.facts[LOW], low)
        self.store.facts[HIGH] = max(self.store.facts[HIGH], high)

    def totals(self) -> Ints:
        """Values of every key: int64[keys]."""
        return _totals(self.store)

    def quantiles(self, q: Sequence[float], *, whole: bool = False) -> npt.NDArray[np.float64]:
        """Quantiles of every key by the rule of `histogram.quantile`: float64[keys, len(q)].

        q      0 … 1, ascending
        whole  the values are whole numbers

        NaN where a key has no value.
        """
        keys, totals, bins = self.ranked(q)
        found = np.full((self.keys, len(q)), np.nan)
        found[keys] = between(totals, bins, q, whole=whole)
        return found

    def ranked(self, q: Sequence[float], *, least: int = 1) -> tuple[Ints, Ints, npt.NDArray[np.uint16]]:
        """Whole numbers from which `between` makes quantiles, for keys with at least `least` values.

        q  0 … 1, ascending

        Returns int64[n] keys in order, int64[n] their numbers of values, uint16[n, len(q), 2] the log
        bins of the value at or below each quantile and of the value after it.
        """
        span = max(0, int(self.store.facts[HIGH] - self.store.facts[LOW]))
        keys, totals = np.zeros((2, span), np.int64)
        bins = np.zeros((span, len(q), 2), np.uint16)
        n = _ranked(self.store, self._order(), np.asarray(q, np.float64), least, keys, totals, bins)
        return keys[:n].copy(), totals[:n].copy(), bins[:n].copy()

    def entries(self) -> tuple[Ints, Ints, Ints]:
        """All filled bins, by key, then by bin: int64[n] keys, log bins, counts."""
        order = self._order()
        found = np.zeros((3, _entries(self.store, order, False, np.zeros((3, 0), np.int64))), np.int64)
        _entries(self.store, order, True, found)
        return found[0], found[1], found[2]

    def _order(self) -> Ints:
        return np.argsort(self.store.owners[: self.pages], kind="stable")
