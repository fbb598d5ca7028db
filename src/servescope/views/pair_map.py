"""What is known of every pair of user and model: an open-addressing map in flat arrays.

A pair takes 64 bytes of record, which are one line of the cache, and 6 to 12 of table. Its first nine gaps
are held back as bin indices of 12 bits in two words; the tenth sends them to the pooled histogram.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import LOG_BINS, log_bin
from servescope.kernels.jit import inlined, kernel
from servescope.kernels.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Slots = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]

KEY, FIRST, LAST, REQUESTS, GAPS, HELD = range(6)  # of a record; HELD takes two words, one is free
WORDS = 8
LINE_BYTES = 64
ENOUGH = 10  # gaps from which a pair is in the pooled histogram
IN_A_WORD, BITS = 5, 12
KEY_BITS = 32  # of a key are the model, the rest the user: a longer trace does not change keys
MODEL = (1 << KEY_BITS) - 1
SMALLEST = 1 << 10
EARLY, MOST_EARLY = 32, 1 << 22  # room that records get early: so many times theirs, and records at most
US_PER_S = 1e6
AHEAD = 256  # keys looked up at once


class Rows(NamedTuple):
    """Codes int32[n], negative for none, and arrivals int64[n]."""

    user: Codes
    model: Codes
    arrival: Ints


class Gaps(NamedTuple):
    """Gaps by pair: int32[n] keys (see `Drawn`) and int16[n] log bins."""

    keys: Codes
    bins: npt.NDArray[np.int16]


class Drawn(NamedTuple):
    """Which models' gaps are kept apart by pair, by the key user * many + line.

    lines  int32[models], line of a drawn model or -1
    many   number of lines
    """

    lines: Codes
    many: int


@inlined
def _mixed(key: int) -> np.uint64:
    """Hash of a key: the low bits name the slot at which a search starts, the high ones are a tag."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    return mixed ^ (mixed >> np.uint64(29))


@inlined
def _other(word: np.uint64, mixed: np.uint64, last: np.uint64) -> bool:
    """Whether the tag in a slot's word shows another key; `last` is the last slot.

    A word is row + 1 in as many low bits as slots have, and above them so many of bits 32 to 63 of the
    key's hash as fit in 32. So all but one in hundreds of searches load no record of another key.
    """
    return bool((word ^ (mixed >> np.uint64(32))) & (np.uint64(0xFFFFFFFF) & ~last) != 0)


@inlined
def _most(slots: Slots) -> int:
    """Records for which there are slots enough."""
    return 2 * len(slots) // 3


@inlined
def _row_of(slots: Slots, records: Ints, used: int, key: int) -> int:
    """Row of a key's record; where there was none, it is row `used` from now on."""
    last = np.uint64(len(slots) - 1)
    mixed = _mixed(key)
    slot = mixed & last
    while slots[slot] != 0:
        row = np.int64(np.uint64(slots[slot]) & last) - 1
        if records[row, KEY] == key:
            return int(row)
        slot = (slot + np.uint64(1)) & last
    _enter(slots, slot, mixed, used)
    records[used, KEY] = key
    return used


@inlined
def _enter(slots: Slots, slot: np.uint64, mixed: np.uint64, row: int) -> None:
    """Write the word of a row to a free slot."""
    last = np.uint64(len(slots) - 1)
    slots[slot] = np.uint32((mixed >> np.uint64(32)) & ~last | np.uint64(row + 1))


@inlined
def _look_up(slots: Slots, records: Ints, keys: Ints, rows: Ints, n: int, scratch: Words) -> None:
    """Rows of keys as far as their tags tell, -1 for keys that are new: int64[n], modified.

    Nothing here waits for the key before, and no branch depends on where a key lies: all are looked up
    at their first slot, then those that were not there at their second, and so on. Each pass asks for the
    memory of the next one, the last for the records. So misses overlap: with a year's pairs a row takes
    half the time that it does without asking.

    scratch  uint64[3, n at least]
    """
    last = np.uint64(len(slots) - 1)
    for j in range(n):
        scratch[0, j] = _mixed(keys[j])
        scratch[1, j] = scratch[0, j] & last
        scratch[2, j] = np.uint64(j)
        prefetch(slots, np.int64(scratch[1, j]))
    left = n
    while left > 0:
        still = 0
        for i in range(left):
            j = scratch[2, i]
            word = np.uint64(slots[scratch[1, j]])
            rows[j] = np.int64(word & last) - 1
            scratch[1, j] = (scratch[1, j] + np.uint64(1)) & last
            scratch[2, still] = j
            still += (word != 0) & _other(word, scratch[0, j], last)
        left = still
    for j in range(n):
        prefetch(records, rows[j] * WORDS)


@inlined
def _missed(records: Ints, keys: Ints, rows: Ints, n: int, missed: Ints) -> int:
    """Number of keys that are new, or whose tag is that of another key; their places, in missed."""
    found = 0
    for j in range(n):
        missed[found] = j
        found += (rows[j] < 0) | (records[max(rows[j], 0), KEY] != keys[j])
    return found


@inlined
def _note(drawn: Drawn, key: int, gap_bin: int, gaps: Gaps, found: int) -> int:
    """Write down a gap, if there is one and its model is drawn; how many are written then."""
    line = drawn.lines[np.uint64(key & MODEL)]
    gaps.keys[found] = (key >> KEY_BITS) * drawn.many + line
    gaps.bins[found] = gap_bin
    return found + int((gap_bin > 0) & (line >= 0))


@inlined
def _gap(records: Ints, pooled: Ints, row: int, gap_bin: int) -> None:
    """Count one gap of the pair in this row: held back, or pooled with those held before."""
    gaps = records[row, GAPS]
    records[row, GAPS] = gaps + 1
    if gaps >= ENOUGH:
        pooled[gap_bin] += 1
    else:
        _hold(records, pooled, row, gaps, gap_bin)


@inlined
def _hold(records: Ints, pooled: Ints, row: int, gaps: int, gap_bin: int) -> None:
    """Hold back a gap after fewer than `ENOUGH`; the last of these sends all to the pool."""
    if gaps == ENOUGH - 1:
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
    slots: Slots, records: Ints, used: int, pooled: Ints, drawn: Drawn, rows: Rows, row: int, noted: Gaps
) -> tuple[int, int, int]:
    """Fold in rows from `row` on until room runs out: row reached, records used, gaps noted.

    slots, records, pooled  of `PairMap`, modified
    drawn                   which models are
    noted                   gaps of drawn models, as many as rows; the first ones are modified
    """
    at, rank = np.empty((2, AHEAD), np.int64)
    keys, starts, gaps, light = np.empty((4, AHEAD), np.int64)
    scratch, found = np.empty((3, AHEAD), np.uint64), 0
    user, model, arrival = rows
    while row < len(user) and used + AHEAD <= _most(slots):
        n, end = 0, min(row + AHEAD, len(user))
        for i in range(row, end):
            keys[n] = np.int64(user[i]) << KEY_BITS | np.int64(model[i])
            starts[n] = arrival[i]
            n += (user[i] >= 0) & (model[i] >= 0)
        row = end
        _look_up(slots, records, keys, at, n, scratch)
        for i in range(_missed(records, keys, at, n, light)):
            j = light[i]
            at[j] = _row_of(slots, records, used, keys[j])
            if at[j] == used:
                used += 1
                records[at[j], FIRST] = records[at[j], LAST] = starts[j]
        for j in range(n):
            gaps[j] = starts[j] - records[at[j], LAST]
            rank[j] = records[at[j], GAPS]
            records[at[j], LAST] = starts[j]
            records[at[j], REQUESTS] += 1
            records[at[j], GAPS] += gaps[j] > 0
        # loops of one thing each: together they take 2 ns a row longer
        for j in range(n):
            gaps[j] = log_bin(gaps[j] / US_PER_S)
        for j in range(n):
            pooled[np.uint64(gaps[j])] += (gaps[j] > 0) & (rank[j] >= ENOUGH)
        for j in range(n):
            found = _note(drawn, keys[j], gaps[j], noted, found)
        few = 0
        for j in range(n):
            light[few] = j
            few += (gaps[j] > 0) & (rank[j] < ENOUGH)
        for i in range(few):
            j = light[i]
            _hold(records, pooled, at[j], rank[j], gaps[j])
    return row, used, found


@kernel
def stitch(
    slots: Slots, records: Ints, used: int, pooled: Ints, drawn: Drawn, later: Ints, row: int, noted: Gaps
) -> tuple[int, int, int]:
    """Fold in the records of the adjacent, later slice, from `row` on; otherwise as `fold`."""
    found = 0
    while row < len(later) and used < _most(slots):
        key = later[row, KEY]
        at = _row_of(slots, records, used, key)
        if at == used:
            used += 1
            for word in range(WORDS):
                records[at, word] = later[row, word]
        else:
            gap = later[row, FIRST] - records[at, LAST]
            if gap > 0:
                gap_bin = log_bin(gap / US_PER_S)
                _gap(records, pooled, at, gap_bin)
                found = _note(drawn, key, gap_bin, noted, found)
            _join(records, pooled, at, later, row)
        row += 1
    return row, used, found


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
def _refill(slots: Slots, records: Ints, used: int) -> None:
    """Enter all records into an empty table."""
    last = np.uint64(len(slots) - 1)
    for row in range(used):
        mixed = _mixed(records[row, KEY])
        slot = mixed & last
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & last
        _enter(slots, slot, mixed, row)


def _room(many: int) -> Gaps:
    return Gaps(np.empty(many, np.int32), np.empty(many, np.int16))


def _new_records(many: int) -> Ints:
    """Records of zeros, each in a line of the cache: int64[many, WORDS]."""
    held = np.zeros(many * WORDS + LINE_BYTES // 8, np.int64)
    skip = -held.ctypes.data % LINE_BYTES // 8
    return held[skip : skip + many * WORDS].reshape(many, WORDS)


@dataclass
class PairMap:
    """All pairs of user and model that had a request.

    slots    uint32[a power of two], see `_other`, 0 where free
    records  int64[two thirds of it or more, WORDS], the first `used` of them by first appearance
    pooled   int64[LOG_BINS], gaps of pairs with at least `ENOUGH` of them
    """

    used: int = 0
    slots: Slots = field(default_factory=lambda: np.zeros(SMALLEST, np.uint32))
    records: Ints = field(default_factory=lambda: _new_records(SMALLEST * 2 // 3))
    pooled: Ints = field(default_factory=lambda: np.zeros(LOG_BINS, np.int64))

    @property
    def held(self) -> Ints:
        """The records in use, a view."""
        return self.records[: self.used]

    def update(self, rows: Rows, drawn: Drawn) -> Iterator[Gaps]:
        """Fold in rows, piece by piece: the gaps of drawn models that they end. The next piece overwrites."""
        row = 0
        noted = _room(len(rows.user))
        while row < len(rows.user):
            row, self.used, found = fold(
                self.slots, self.records, self.used, self.pooled, drawn, rows, row, noted
            )
            yield Gaps(noted.keys[:found], noted.bins[:found])
            if row < len(rows.user):
                self._grow()

    def merge(self, later: PairMap, drawn: Drawn) -> Iterator[Gaps]:
        """Fold in the adjacent, later slice, which is not modified: as `update`, gaps between both slices."""
        self.pooled += later.pooled
        row = 0
        noted = _room(later.used)
        while row < later.used:
            row, self.used, found = stitch(
                self.slots, self.records, self.used, self.pooled, drawn, later.held, row, noted
            )
            yield Gaps(noted.keys[:found], noted.bins[:found])
            if row < later.used:
                self._grow()

    def _grow(self) -> None:
        """Twice the slots, and records enough for them.

        Room for more records than that is had early: what is not used takes no memory, and a copy of all
        records takes a moment.
        """
        slots = np.zeros(2 * len(self.slots), np.uint32)
        most = _most(slots)
        if most > len(self.records):
            records = _new_records(max(most, min(EARLY * len(self.records), MOST_EARLY)))
            records[: self.used] = self.held
            self.records = records
        self.slots = slots
        _refill(self.slots, self.records, self.used)
