"""What is known of every pair of user and model: an open-addressing map in flat arrays.

A pair takes 64 bytes of record, which are one line of the cache, and 6 to 12 of table. Its first nine gaps
are held back as bin indices of 12 bits in two words; the tenth sends them to the pooled histogram.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import LOG_BINS, log_bin
from servescope.kernels.jit import inlined, kernel

Ints = npt.NDArray[np.int64]

KEY, FIRST, LAST, REQUESTS, GAPS, HELD = range(6)  # of a record; HELD takes two words, one is free
WORDS = 8
LINE_BYTES = 64
ENOUGH = 10  # gaps from which a pair is in the pooled histogram
IN_A_WORD, BITS = 5, 12
KEY_BITS = 32  # of a key are the model, the rest the user: a longer trace does not change keys
SMALLEST = 1 << 10
US_PER_S = 1e6
AHEAD = 64  # keys looked up at once
NO_GAP = -1  # in place of a bin


@inlined
def _start(slots: npt.NDArray[np.int32], key: int) -> np.uint64:
    """The slot at which the search for a key starts."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    return np.uint64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(len(slots) - 1))


@inlined
def _slot_of(slots: npt.NDArray[np.int32], records: Ints, key: int) -> np.int64:
    """The slot that holds the row + 1 of a key's record, or the free slot (0) where it belongs."""
    slot = _start(slots, key)
    while slots[slot] != 0 and records[slots[slot] - 1, KEY] != key:
        slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
    return np.int64(slot)


@inlined
def _look_ahead(slots: npt.NDArray[np.int32], records: Ints, keys: Ints, rows: Ints) -> None:
    """Rows of keys at the start of their search, else -1: int64[n], modified.

    Nothing here waits for the one before, so the processor fetches all of it at once: twice as fast
    as row by row where the map is larger than the cache.
    """
    for j in range(len(keys)):
        rows[j] = slots[_start(slots, keys[j])] - 1
    for j in range(len(keys)):
        if rows[j] >= 0 and records[rows[j], KEY] != keys[j]:
            rows[j] = -1


@inlined
def _row_of(slots: npt.NDArray[np.int32], records: Ints, used: int, key: int) -> int:
    """Row of a key's record; where there was none, it is row `used` from now on."""
    slot = _slot_of(slots, records, key)
    if slots[slot] == 0:
        slots[slot] = used + 1
        records[used, KEY] = key
    return int(slots[slot]) - 1


@inlined
def _gap(records: Ints, pooled: Ints, row: int, gap_bin: int) -> None:
    """Count one gap of the pair in this row: held back, or pooled with those held before."""
    gaps = records[row, GAPS]
    records[row, GAPS] = gaps + 1
    if gaps >= ENOUGH:
        pooled[gap_bin] += 1
    elif gaps == ENOUGH - 1:
        for at in range(gaps):
            pooled[_held(records, row, at)] += 1
        pooled[gap_bin] += 1
    else:
        records[row, HELD + gaps // IN_A_WORD] |= gap_bin << (BITS * (gaps % IN_A_WORD))


@inlined
def _held(records: Ints, row: int, at: int) -> int:
    """Bin of a gap held back."""
    word = records[row, HELD + at // IN_A_WORD]
    return int((word >> (BITS * (at % IN_A_WORD))) & ((1 << BITS) - 1))


@kernel
def fold(
    slots: npt.NDArray[np.int32],
    records: Ints,
    used: int,
    pooled: Ints,
    user: npt.NDArray[np.int32],
    model: npt.NDArray[np.int32],
    arrival: Ints,
    bins: Ints,
    row: int,
) -> tuple[int, int]:
    """Fold in rows from `row` on until room runs out: row reached, records used.

    slots, records, pooled  of `PairMap`, modified
    bins                    int64[rows], modified: bin of the gap that a row ends, NO_GAP for none
    """
    keys, rows, gaps = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
    while row < len(user) and used + AHEAD <= len(records):
        ahead = min(AHEAD, len(user) - row)
        for j in range(ahead):
            keys[j] = np.int64(user[row + j]) << KEY_BITS | model[row + j]
        _look_ahead(slots, records, keys[:ahead], rows[:ahead])
        for j in range(ahead):
            gaps[j] = 0
            if user[row + j] < 0 or model[row + j] < 0:
                continue
            start = arrival[row + j]
            at = rows[j] = rows[j] if rows[j] >= 0 else _row_of(slots, records, used, keys[j])
            if at == used:
                used += 1
                records[at, FIRST] = records[at, LAST] = start
            gaps[j] = start - records[at, LAST]
            records[at, LAST] = start
            records[at, REQUESTS] += 1
        for j in range(ahead):  # apart, so that nothing of the next row waits for a bin
            bins[row + j] = log_bin(max(gaps[j], 1) / US_PER_S) if gaps[j] > 0 else NO_GAP
        for j in range(ahead):
            if gaps[j] > 0:
                _gap(records, pooled, rows[j], bins[row + j])
        row += ahead
    return row, used


@kernel
def stitch(
    slots: npt.NDArray[np.int32],
    records: Ints,
    used: int,
    pooled: Ints,
    later: Ints,
    bins: Ints,
    row: int,
) -> tuple[int, int]:
    """Fold in the records of the adjacent, later slice, from `row` on; otherwise as `fold`."""
    keys, rows = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
    while row < len(later) and used + AHEAD <= len(records):
        ahead = min(AHEAD, len(later) - row)
        for j in range(ahead):
            keys[j] = later[row + j, KEY]
        _look_ahead(slots, records, keys[:ahead], rows[:ahead])
        for j in range(ahead):
            bins[row] = NO_GAP
            at = rows[j] if rows[j] >= 0 else _row_of(slots, records, used, keys[j])
            if at == used:
                used += 1
                for word in range(WORDS):
                    records[at, word] = later[row, word]
            else:
                if later[row, FIRST] > records[at, LAST]:
                    bins[row] = log_bin((later[row, FIRST] - records[at, LAST]) / US_PER_S)
                    _gap(records, pooled, at, bins[row])
                _join(records, pooled, at, later, row)
            row += 1
    return row, used


@inlined
def _join(records: Ints, pooled: Ints, at: int, later: Ints, row: int) -> None:
    """Take over requests and gaps of a later record; gaps that it pooled are in the pool already."""
    records[at, LAST] = later[row, LAST]
    records[at, REQUESTS] += later[row, REQUESTS]
    if later[row, GAPS] < ENOUGH:
        for one in range(later[row, GAPS]):
            _gap(records, pooled, at, _held(later, row, one))
        return
    if records[at, GAPS] < ENOUGH:
        for one in range(records[at, GAPS]):
            pooled[_held(records, at, one)] += 1
    records[at, GAPS] += later[row, GAPS]


@kernel
def _refill(slots: npt.NDArray[np.int32], records: Ints, used: int) -> None:
    """Enter all records into an empty table."""
    for row in range(used):
        slots[_slot_of(slots, records, records[row, KEY])] = row + 1


def _new_records(many: int) -> Ints:
    """Records of zeros, each in a line of the cache: int64[many, WORDS]."""
    held = np.zeros(many * WORDS + LINE_BYTES // 8, np.int64)
    skip = -held.ctypes.data % LINE_BYTES // 8
    return held[skip : skip + many * WORDS].reshape(many, WORDS)


@dataclass
class PairMap:
    """All pairs of user and model that had a request.

    slots    int32[a power of two], row + 1 of a record, 0 where free
    records  int64[at most two thirds of it, WORDS], the first `used` of them by first appearance
    pooled   int64[LOG_BINS], gaps of pairs with at least `ENOUGH` of them
    """

    used: int = 0
    slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(SMALLEST, np.int32))
    records: Ints = field(default_factory=lambda: _new_records(SMALLEST * 2 // 3))
    pooled: Ints = field(default_factory=lambda: np.zeros(LOG_BINS, np.int64))

    @property
    def held(self) -> Ints:
        """The records in use, a view."""
        return self.records[: self.used]

    def update(self, user: npt.NDArray[np.int32], model: npt.NDArray[np.int32], arrival: Ints) -> Ints:
        """Fold in rows: codes int32[n], negative for none, and arrivals int64[n].

        Returns int64[n], bin of the gap that each row ends, NO_GAP for none.
        """
        bins, row = np.empty(len(user), np.int64), 0
        while row < len(user):
            row, self.used = fold(
                self.slots, self.records, self.used, self.pooled, user, model, arrival, bins, row
            )
            if row < len(user):
                self._grow()
        return bins

    def merge(self, later: PairMap) -> Ints:
        """Fold in the adjacent, later slice, which is not modified.

        Returns int64[later.used], bin of the gap between both slices, NO_GAP for none.
        """
        self.pooled += later.pooled
        bins, row = np.empty(later.used, np.int64), 0
        while row < later.used:
            row, self.used = stitch(self.slots, self.records, self.used, self.pooled, later.held, bins, row)
            if row < later.used:
                self._grow()
        return bins

    def _grow(self) -> None:
        """Twice the room."""
        slots = 2 * len(self.slots)
        records = _new_records(slots * 2 // 3)
        records[: self.used] = self.held
        self.records, self.slots = records, np.zeros(slots, np.int32)
        _refill(self.slots, self.records, self.used)
