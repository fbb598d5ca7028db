"""Counts of those keys that come often, kept in front of sorted runs (`runs`).

A key that has come ENOUGH times gets a page of counts, in which a value is counted at once. A few thousand
keys make most of any traffic, at any time: of a year's requests 70 % are of users with one of 4,096 pages.
A value that is counted costs a sixth of one that is sorted, coded and merged. When there is no page left,
all are emptied into a run, and keys must come anew.

    often = Frequent(2, low, width)         # a page has the bins low … low + width - 1 of two numbers
    rest = often.sift(keys, first, second)  # what is not counted, as `shapes` sorts it
    if often.full: runs = often.taken()     # a run for each number

Slow twin: the run of all values, tests/reference/runs.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import inlined, kernel
from servescope.kernels.prefetch import prefetch
from servescope.kernels.room import grown
from servescope.kernels.run_coding import BIN_BITS, Bytes, Values, put_bin, put_number

Counts = npt.NDArray[np.uint32]
Codes = npt.NDArray[np.int32]
Bins = npt.NDArray[np.int16]
Places = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.uint8]
ENOUGH = 256  # times that a key comes until it gets a page
PAGES = 1 << 12
MOST_KEYS = 1 << 22  # larger keys never get one, so that they cost no room
MOST = 2**32 - 1  # of a count
BLOCK = 1_024  # rows whose memory is asked for at once
BIN_BYTES, KEY_BYTES = 7, 6  # at most, of a bin with its count, and of a key with its end


@inlined
def _pages(
    seen: Codes, owners: Codes, used: int, keys: Codes, first: Bins, second: Bins, pages: Codes, at: Places
) -> tuple[int, int]:
    """Pages of a block of rows, 0 for none: int32[rows], modified. Pages in use, rows that want one.

    at  uint32[rows], modified
    """
    most, wanting = np.int32(len(seen) - 1), 0
    for i in range(len(keys)):
        counts = (first[i] > 0) & (second[i] > 0) & (keys[i] >= 0) & (keys[i] < most)
        at[i] = np.uint32((keys[i] + np.int32(1)) * np.int32(counts))
        prefetch(seen, np.int64(at[i]))
    for i in range(len(keys)):
        times = seen[at[i]]
        pages[i] = max(times - np.int32(ENOUGH), np.int32(0))
        if times == ENOUGH - 1:
            if used < len(owners):
                owners[used], seen[at[i]] = keys[i], ENOUGH + used
                used += 1
            else:
                wanting += 1
        else:
            seen[at[i]] = times + np.int32((times < ENOUGH) & (at[i] > 0))
    return used, wanting


@inlined
def _places(
    low: int, width: int, across: int, first: Bins, second: Bins, pages: Codes, places: Places, kept: Flags
) -> None:
    """Where a block of rows is counted: uint32[2, rows], modified; kept: whether, else at 0."""
    lowest, bins, step = np.int32(low), np.int32(width), np.int32(across)
    for i in range(len(pages)):
        one, two = np.int32(first[i]) - lowest, np.int32(second[i]) - lowest
        inside = np.int32((pages[i] > 0) & (one >= 0) & (two >= 0) & (one < bins) & (two < bins))
        kept[i] = inside
        places[0, i] = np.uint32((pages[i] * step + one) * inside)
        places[1, i] = np.uint32((pages[i] * step + bins + two) * inside)


@inlined
def _others(keys: Codes, first: Bins, second: Bins, kept: Flags, others: Codes) -> int:
    """Number of rows that count, but not here; which, in others."""
    for i in range(len(keys)):
        kept[i] = (kept[i] == 0) & (keys[i] >= 0) & (first[i] > 0) & (second[i] > 0)
    left = 0
    for i in range(len(keys)):  # apart: the loop above takes many rows at once
        others[left] = i
        left += int(kept[i])
    return left


@inlined
def _count(counts: npt.NDArray[np.uint32], places: Places, kept: Flags) -> None:
    """Add 1 at the places of rows that are kept."""
    for i in range(len(kept)):
        prefetch(counts, np.int64(places[i]))
    for i in range(len(kept)):
        counts[places[i]] += np.uint32(kept[i])


@kernel
def _sift(
    seen: Codes,
    counts: Counts,
    owners: Codes,
    used: int,
    low: int,
    numbers: int,
    rows: tuple[Codes, Bins, Bins],
    values: Values,
) -> tuple[int, int, int]:
    """Count rows of keys with pages, write the others to the first of values; see `Frequent`.

    Returns how many are written, the pages in use, and rows that found no page.
    """
    left = wanting = 0
    width, across, flat = counts.shape[1] // numbers, counts.shape[1], counts.reshape(-1)
    pages, at = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.uint32)
    places, kept = np.empty((2, BLOCK), np.uint32), np.empty(BLOCK, np.uint8)
    for low_row in range(0, len(rows[0]), BLOCK):
        keys, first, second = (
            rows[0][low_row : low_row + BLOCK],
            rows[1][low_row : low_row + BLOCK],
            rows[2][low_row : low_row + BLOCK],
        )
        n = len(keys)
        used, more = _pages(seen, owners, used, keys, first, second, pages[:n], at)
        wanting += more
        _places(low, width, across, first, second, pages[:n], places, kept)
        _count(flat, places[0], kept[:n])
        if numbers == 2:
            _count(flat, places[1], kept[:n])
        for i in range(_others(keys, first, second, kept[:n], pages)):
            row = pages[i]
            value = np.uint64(np.uint32(keys[row])) << np.uint64(BIN_BITS) | np.uint64(first[row])
            if numbers == 2:
                value = value << np.uint64(BIN_BITS) | np.uint64(second[row])
            values[left] = value
            left += 1
    return left, used, wanting


@kernel
def _taken(counts: Counts, order: Codes, owners: Codes, low: int, numbers: int, number: int) -> Bytes:
    """The run (see `run_coding`) of one number's counts.

    order  pages in the order of their keys
    """
    width = counts.shape[1] // numbers
    begin = number * width
    # most of it is never touched
    out = np.empty((BIN_BYTES * width + KEY_BYTES) * len(order), np.uint8)
    places = np.empty(width, np.int64)
    at, last_key = 0, -1
    for i in range(len(order)):
        own, n = counts[order[i], begin : begin + width], 0
        for place in range(width):  # apart, for here it is without a branch
            places[n] = place
            n += own[place] != 0
        if n == 0:  # the key got the page with its last value
            continue
        key = int(owners[order[i]])
        at = put_number(out, at, key - last_key)
        last_key, last = key, -1
        for one in range(n):
            here = int(low + places[one])
            at = put_bin(out, at, here - last, int(own[places[one]]))
            last = here
        out[at] = 0
        at += 1
    return out[:at].copy()


class Frequent:
    """Counts of keys that come often, see the module. Changed by `sift` and `taken`.

    numbers  that a row has: 1 or 2
    low      first bin of a page
    width    bins of each number
    seen     int32[1 + keys met so far]: times that a key came, from ENOUGH on that + its page; 0 for no key
    counts   uint32[PAGES, numbers * width], of which page 0 stands for none
    owners   int32[PAGES], keys of pages
    used     pages in use and page 0; 0 before the first row
    full     rows found no page, or counts may become too large: time for `taken`
    counted  rows since then
    """

    def __init__(self, numbers: int, low: int, width: int) -> None:
        self.numbers, self.low, self.width = numbers, low, width
        self.seen = np.zeros(0, np.int32)
        self.counts = np.zeros((0, numbers * width), np.uint32)
        self.owners = np.zeros(0, np.int32)
        self.used = self.counted = 0
        self.full = False

    def sift(self, keys: Codes, first: Bins, second: Bins) -> Values:
        """Count rows of keys that come often: int32[n] keys, int16[n] bins (twice the same for one number).

        Returns the others as `runs` and `shapes` sort them: key, then `numbers` bins of BIN_BITS. Rows with
        a key below 0 or a bin of 0 or less are left out.
        """
        if not self.used:
            self.counts = np.zeros((PAGES, self.numbers * self.width), np.uint32)
            self.owners, self.used = np.zeros(PAGES, np.int32), 1
        largest = int(keys.max(initial=0))
        self.seen = grown(self.seen, min(largest, MOST_KEYS) + 2)
        values = np.empty(len(keys), np.uint64)
        left, self.used, wanting = _sift(
            self.seen, self.counts, self.owners, self.used, self.low, self.numbers,
            (keys, first, second), values,
        )  # fmt: skip
        self.counted += len(keys)
        self.full = wanting > 0 or self.counted > MOST // 2
        return values[:left]

    def taken(self, *, keep: bool = False) -> list[Bytes]:
        """The runs of all counts, one for each number; pages are free again, unless keys keep them."""
        order = (1 + np.argsort(self.owners[1 : self.used])).astype(np.int32)
        found = [
            _taken(self.counts, order, self.owners, self.low, self.numbers, number)
            for number in range(self.numbers)
        ]
        self.counts[: self.used] = 0
        self.counted, self.full = 0, False
        if not keep:
            self.seen[self.owners[1 : self.used] + 1] = 0
            self.used = min(self.used, 1)
        return found

    def __getstate__(self) -> dict[str, object]:
        """What is stored when all counts are taken: no room."""
        return dict(Frequent(self.numbers, self.low, self.width).__dict__)


def of_gaps() -> Frequent:
    """Empty counts of gaps in seconds, with pages of the bins from 0.1 ms up to before 20 days."""
    return Frequent(1, 801, 1_024)
