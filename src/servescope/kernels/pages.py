"""The arrays behind `paged.Paged`, and the kernels that add to them; see `paged` for what they hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import LOG_BINS
from servescope.kernels.jit import kernel

Ints = npt.NDArray[np.int64]

EARLY = 15  # values kept as a list
PAGED = EARLY + 1  # in place of the list's length: the key has pages
PAGE_BINS = 16
PAGES = (LOG_BINS + PAGE_BINS - 1) // PAGE_BINS  # of a key
MOST_NEW = EARLY + 1  # pages that one added value may need
AHEAD = 64  # values that `add_block` looks up at once
FULL = 0xFFFFFFFF  # the most that a bin holds
SMALLEST = AHEAD * MOST_NEW  # rows
USED, LOW, HIGH = 0, 1, 2  # in `Store.facts`


class Store(NamedTuple):
    """The arrays of `Paged`.

    early   uint16[keys, 16]: length of the list or PAGED, then the bins of the list
    slots   int32[a power of two]: row of a page + 1, 0 where free
    owners  uint64[rows]: ((key * PAGES) + page) * 2, + 1 where the page counts in units of 2^32
    counts  uint32[rows, 16]
    facts   int64[3]: rows used, lowest key with a value, highest key with a value + 1
    """

    early: npt.NDArray[np.uint16]
    slots: npt.NDArray[np.int32]
    owners: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.uint32]
    facts: Ints


@kernel
def has_room(store: Store, values: int = 1) -> bool:
    """Whether so many more values certainly fit."""
    return bool(store.facts[USED] + values * MOST_NEW <= len(store.owners))


@kernel
def _start(slots: npt.NDArray[np.int32], owner: np.uint64) -> np.uint64:
    """The slot at which the search for an owner's page starts."""
    mixed = owner * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    return np.uint64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(len(slots) - 1))


@kernel
def _slot_of(slots: npt.NDArray[np.int32], owners: npt.NDArray[np.uint64], owner: np.uint64) -> np.int64:
    """The slot of this owner's page, or the free slot where it belongs."""
    slot = _start(slots, owner)
    while slots[slot] != 0 and owners[slots[slot] - 1] != owner:
        slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
    return np.int64(slot)


@kernel
def _row_of(store: Store, owner: np.uint64) -> int:
    """The row of an owner's page, which is made if missing."""
    slot = _slot_of(store.slots, store.owners, owner)
    if store.slots[slot] == 0:
        row = store.facts[USED]
        store.facts[USED] = row + 1
        store.slots[slot] = row + 1
        store.owners[row] = owner
    return int(store.slots[slot]) - 1


@kernel
def _count(store: Store, owner: np.uint64, place: int, times: np.uint64) -> None:
    """Add to one bin of a page (made if missing), carrying what a uint32 cannot hold."""
    while times > np.uint64(0):
        row = _row_of(store, owner)
        total = np.uint64(store.counts[row, place]) + times
        store.counts[row, place] = np.uint32(total & np.uint64(FULL))
        times = total >> np.uint64(32)
        owner |= np.uint64(1)


@kernel
def _owner(key: int, log_bin: int) -> np.uint64:
    return np.uint64((key * PAGES + log_bin // PAGE_BINS) * 2)


@kernel
def _to_pages(store: Store, key: int) -> None:
    """Move the list of a key to pages."""
    early = store.early
    for at in range(1, early[key, 0] + 1):
        held = int(np.int64(early[key, at]))  # unsigned numbers would be compiled for again
        _count(store, _owner(key, held), held % PAGE_BINS, np.uint64(1))
    early[key, 0] = PAGED


@kernel
def add_one(store: Store, key: int, log_bin: int) -> None:
    """Add a value of this log bin to a key. Changes the store, which must have room."""
    early, facts = store.early, store.facts
    facts[LOW] = min(facts[LOW], key)
    facts[HIGH] = max(facts[HIGH], key + 1)
    length = np.int64(early[key, 0])
    if length < EARLY:
        early[key, length + 1] = log_bin
        early[key, 0] = length + 1
        return
    if length == EARLY:
        _to_pages(store, key)
    _count(store, _owner(key, log_bin), log_bin % PAGE_BINS, np.uint64(1))


@kernel
def add_block(store: Store, keys: npt.NDArray[np.int64], bins: npt.NDArray[np.int64], number: int) -> None:
    """Add the first `number` values, at most AHEAD. Changes the store, which must have room for AHEAD.

    Twice as fast as `add_one` where the store is larger than the cache: the lookups of a block do not
    wait for each other, so the processor fetches them all at once.
    """
    early, slots, owners, counts = store.early, store.slots, store.owners, store.counts
    rows = np.empty(AHEAD, np.int64)
    for j in range(number):
        rows[j] = np.int64(early[keys[j], 0]) - PAGED
    for j in range(number):
        if rows[j] == 0:
            rows[j] = slots[_start(slots, _owner(keys[j], bins[j]))] - 1
    for j in range(number):
        if rows[j] >= 0 and owners[rows[j]] != _owner(keys[j], bins[j]):
            rows[j] = -1
    for j in range(number):
        place = bins[j] % PAGE_BINS
        if rows[j] >= 0 and counts[rows[j], place] < FULL:
            counts[rows[j], place] += np.uint32(1)
        else:
            add_one(store, keys[j], bins[j])


@kernel
def add(store: Store, keys: npt.NDArray[np.int64], bins: npt.NDArray[np.int64], row: int) -> int:
    """Add values from `row` on; the row reached when room ran out."""
    while row < len(keys) and has_room(store, AHEAD):
        number = min(AHEAD, len(keys) - row)
        add_block(store, keys[row : row + number], bins[row : row + number], number)
        row += number
    return row


@kernel
def merge_lists(store: Store, later: Store, key: int) -> int:
    """Take over the lists of a later store from `key` on; the key reached when room ran out."""
    early = later.early
    last = later.facts[HIGH]
    while key < last:
        if not has_room(store, 2):  # a list may move to pages: its values and those of the other list
            return key
        length = np.int64(early[key, 0])
        if length == PAGED:
            if store.early[key, 0] != PAGED:
                _to_pages(store, key)
        else:
            for at in range(1, length + 1):
                add_one(store, key, int(np.int64(early[key, at])))
        key += 1
    return key


@kernel
def merge_pages(store: Store, later: Store, row: int) -> int:
    """Take over the pages of a later store from `row` on; the row reached when room ran out."""
    first = np.empty(AHEAD, np.int64)
    while row < later.facts[USED] and has_room(store, AHEAD):
        owners = later.owners[row : min(row + AHEAD, later.facts[USED])]
        for j in range(len(owners)):
            first[j] = store.slots[_start(store.slots, owners[j])] - 1
        for j in range(len(owners)):
            if first[j] >= 0 and store.owners[first[j]] != owners[j]:
                first[j] = -1
        for j in range(len(owners)):
            at = first[j] if first[j] >= 0 else _row_of(store, owners[j])
            for place in range(PAGE_BINS):
                total = np.uint64(store.counts[at, place]) + np.uint64(later.counts[row, place])
                store.counts[at, place] = np.uint32(total & np.uint64(FULL))
                if total > FULL:
                    _count(store, owners[j] | np.uint64(1), place, total >> np.uint64(32))
            row += 1
    return row


@kernel
def refill(store: Store) -> None:
    """Enter all pages into an empty table of slots."""
    for row in range(store.facts[USED]):
        slot = _slot_of(store.slots, store.owners, store.owners[row])
        store.slots[slot] = row + 1
