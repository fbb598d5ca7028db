"""Log histograms of very many keys in few bytes: sorted runs of coded bins, merged eight at a time.

Values are buffered, sorted and coded as a run; runs of a like size are merged as they pile up, as in a
log-structured merge tree. So memory is read and written in order, where a table of pages pays several cache
misses a value, and a value of a rarely seen key takes 1 to 2 bytes instead of most of a page.

    held = Runs()
    held.add(keys, bins)        # int32[n] keys, int64[n] bins from `histogram.log_bin`
    held.merge(later)           # takes over the runs of another; any order gives the same counts
    held.quantile(0.5, keys)    # float64[keys], NaN where a key has no value
    held.ranked((0.5, 0.9), 10) # the same in whole numbers, of keys with at least 10 values
    held.entries()              # int64[n] each: key, bin and count of all filled bins

A run is uint8[n]: for each key, ascending, its distance from the key before (the first from -1), then its
bins, then 0. A bin is its distance from the bin before (the first from -1), doubled, plus 1 if a count
follows; else the count is 1. All numbers are LEB128, and none but the end is 0.

Slow twin: tests/reference/runs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import REAL_CENTRES, WHOLE_CENTRES
from servescope.kernels.jit import inlined, kernel
from servescope.kernels.words import lowest_bit

if TYPE_CHECKING:
    from collections.abc import Sequence

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.uint64]

CHUNK = 1 << 19  # values that are sorted at once
FAN = 8  # runs of a level that are merged into one of the next
BIN_BITS = 12  # a bin is below LOG_BINS = 2,501
WORDS = (1 << BIN_BITS) // 64  # of bits for all bins: 64, so that one word has a bit for each
NO_KEY = 2**62
WORST_BYTES = 12  # of one value: key 5, bin 2, count 4, end 1


@inlined
def put_number(out: Bytes, at: int, number: int) -> int:
    """Write a number above 0 at `at`; where it ends."""
    while number >= 0x80:
        out[at] = np.uint8(number & 0x7F | 0x80)
        number >>= 7
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@inlined
def _get(run: Bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    number = shift = 0
    while run[at] >= 0x80:
        number |= int(np.int64(run[at]) & 0x7F) << shift
        shift += 7
        at += 1
    return number | int(np.int64(run[at])) << shift, at + 1


@kernel
def _coded(values: Values) -> npt.NDArray[np.uint8]:
    """The run of sorted values, uint64[n]: key << BIN_BITS | bin."""
    out = np.empty(WORST_BYTES * len(values), np.uint8)
    at, i, last_key = 0, 0, -1
    while i < len(values):
        key = int(np.int64(values[i] >> np.uint64(BIN_BITS)))
        at = put_number(out, at, key - last_key)
        last_key, last_bin = key, -1
        while i < len(values) and np.int64(values[i] >> np.uint64(BIN_BITS)) == key:
            first = i
            while i < len(values) and values[i] == values[first]:
                i += 1
            here = int(np.int64(values[first] & np.uint64((1 << BIN_BITS) - 1)))
            times = i - first
            at = put_number(out, at, (here - last_bin) << 1 | (times > 1))
            if times > 1:
                at = put_number(out, at, times)
            last_bin = here
        out[at] = 0
        at += 1
    return out[:at].copy()


@inlined
def _add_bins(run: Bytes, at: int, counts: Ints, filled: Values) -> int:
    """Add a key's bins from `at` on to counts, and mark them; where they end.

    filled  uint64[65], a bit for each bin, and last a bit for each word of them that is not 0: most bins
            of a key are empty, and are not looked at one by one
    """
    here = -1
    while run[at] != 0:
        code, at = _get(run, at)
        here += code >> 1
        times = 1
        if code & 1:
            times, at = _get(run, at)
        counts[here] += times
        filled[here >> 6] |= np.uint64(1) << np.uint64(here & 63)
        filled[WORDS] |= np.uint64(1) << np.uint64(here >> 6)
    return at + 1


@inlined
def put_bins(out: Bytes, at: int, counts: Ints, filled: Values) -> int:
    """Write the bins of a key, and set counts and marks to 0; where they end."""
    last = -1
    while filled[WORDS] != 0:
        word = lowest_bit(filled[WORDS])
        filled[WORDS] &= filled[WORDS] - np.uint64(1)
        bits = filled[word]
        filled[word] = 0
        while bits != 0:
            here = word << 6 | lowest_bit(bits)
            bits &= bits - np.uint64(1)
            times = int(counts[here])
            counts[here] = 0
            at = put_number(out, at, (here - last) << 1 | (times > 1))
            if times > 1:
                at = put_number(out, at, times)
            last = here
    out[at] = 0
    return at + 1


@inlined
def _next_key(run: Bytes, at: int, end: int, key: int) -> tuple[int, int]:
    """The key after `key`, NO_KEY at the end, and where its bins begin."""
    if at >= end:
        return NO_KEY, at
    distance, at = _get(run, at)
    return key + distance, at


@kernel
def _merged(runs: Bytes, edges: Ints) -> npt.NDArray[np.uint8]:
    """One run of several; run i is runs[edges[i]:edges[i + 1]]."""
    many = len(edges) - 1
    keys, places = np.full(many, -1, np.int64), edges[:-1].copy()
    for i in range(many):
        keys[i], places[i] = _next_key(runs, places[i], edges[i + 1], -1)
    out = np.empty(len(runs), np.uint8)
    counts, filled = np.zeros(1 << BIN_BITS, np.int64), np.zeros(WORDS + 1, np.uint64)
    at, last = 0, -1
    while True:
        key, first, shared = NO_KEY, 0, 0
        for i in range(many):
            if keys[i] < key:
                key, first, shared = int(keys[i]), i, 1
            elif keys[i] == key:
                shared += 1
        if key == NO_KEY:
            return out[:at].copy()
        at = put_number(out, at, key - last)
        last = key
        if shared == 1:
            place = places[first]
            while runs[place] != 0:
                out[at] = runs[place]
                at += 1
                place += 1
            out[at] = 0
            at += 1
            keys[first], places[first] = _next_key(runs, place + 1, edges[first + 1], key)
            continue
        for i in range(first, many):
            if keys[i] == key:
                place = _add_bins(runs, places[i], counts, filled)
                keys[i], places[i] = _next_key(runs, place, edges[i + 1], key)
        at = put_bins(out, at, counts, filled)


@inlined
def _read_bins(run: Bytes, at: int, places: Ints, upto: Ints) -> tuple[int, int]:
    """Write a key's bins from `at` on to places, and to upto the values up to and with each; bins, end."""
    here, total, n = -1, 0, 0
    while run[at] != 0:
        code, at = _get(run, at)
        here += code >> 1
        times = 1
        if code & 1:
            times, at = _get(run, at)
        total += times
        places[n], upto[n] = here, total
        n += 1
    return n, at + 1


@kernel
def _quantile(run: Bytes, q: float, centres: npt.NDArray[np.float64], keys: int) -> npt.NDArray[np.float64]:
    """Quantile of every key by the rule of `histogram.quantile`: float64[keys]."""
    found = np.full(keys, np.nan)
    places, upto = np.empty(1 << BIN_BITS, np.int64), np.empty(1 << BIN_BITS, np.int64)
    key, at = _next_key(run, 0, len(run), -1)
    while key != NO_KEY:
        n, at = _read_bins(run, at, places, upto)
        exact = (upto[n - 1] - 1) * q
        rank = np.int64(exact)
        here = 0
        while upto[here] <= rank:
            here += 1
        after = here
        while upto[after] <= min(rank + 1, upto[n - 1] - 1):
            after += 1
        low, high = centres[places[here]], centres[places[after]]
        found[key] = low + (exact - rank) * (high - low)
        key, at = _next_key(run, at, len(run), key)
    return found


@kernel
def _ranked(
    run: Bytes, q: npt.NDArray[np.float64], least: int, keys: Ints, totals: Ints, bins: npt.NDArray[np.uint16]
) -> int:
    """Fill the first rows of keys, totals and bins as `Runs.ranked` gives them; their number."""
    places, upto = np.empty(1 << BIN_BITS, np.int64), np.empty(1 << BIN_BITS, np.int64)
    row = 0
    key, at = _next_key(run, 0, len(run), -1)
    while key != NO_KEY:
        n, at = _read_bins(run, at, places, upto)
        total = upto[n - 1]
        if total >= least:
            here = 0
            for i in range(len(q)):
                rank = int((total - 1) * q[i])
                while upto[here] <= rank:
                    here += 1
                after = here
                while upto[after] <= min(rank + 1, total - 1):
                    after += 1
                bins[row, i, 0], bins[row, i, 1] = places[here], places[after]
            keys[row], totals[row] = key, total
            row += 1
        key, at = _next_key(run, at, len(run), key)
    return row


@kernel
def _entries(run: Bytes, write: bool, found: Ints) -> int:
    """Number of filled bins; with `write` they are put in found, int64[3, n] (key, bin, count)."""
    n = 0
    key, at = _next_key(run, 0, len(run), -1)
    while key != NO_KEY:
        here = -1
        while run[at] != 0:
            code, at = _get(run, at)
            here += code >> 1
            times = 1
            if code & 1:
                times, at = _get(run, at)
            if write:
                found[0, n], found[1, n], found[2, n] = key, here, times
            n += 1
        key, at = _next_key(run, at + 1, len(run), key)
    return n


def between(
    totals: Ints, bins: npt.NDArray[np.uint16], q: Sequence[float], *, whole: bool = False
) -> npt.NDArray[np.float64]:
    """Quantiles from what `Runs.ranked` gives, by the rule of `histogram.quantile`: float64[n, len(q)]."""
    exact = (totals[:, None] - 1) * np.asarray(q, np.float64)
    first, after = np.moveaxis((WHOLE_CENTRES if whole else REAL_CENTRES)[bins], -1, 0)
    found: npt.NDArray[np.float64] = first + (exact - np.floor(exact)) * (after - first)
    return found


@kernel
def _buffer(
    pending: Values, filled: int, keys: npt.NDArray[np.int32], bins: Ints, row: int
) -> tuple[int, int]:
    """Append values from `row` on until the buffer is full: values held, row reached."""
    while row < len(keys) and filled < len(pending):
        # no branch: what does not count is overwritten by the next value
        pending[filled] = np.uint64(np.int64(keys[row]) << BIN_BITS | bins[row])
        filled += (keys[row] >= 0) & (bins[row] >= 0)
        row += 1
    return filled, row


class Runs:
    """Log histograms by key, see the module. Changed by `add`, `merge`, `compact`.

    levels   runs by level, fewer than FAN at each
    pending  uint64[CHUNK], values not yet in a run, the first `filled` of them
    """

    def __init__(self) -> None:
        self.levels: list[list[Bytes]] = [[]]
        self.pending: Values = np.zeros(0, np.uint64)
        self.filled = 0

    def add(self, keys: npt.NDArray[np.int32], bins: Ints) -> None:
        """Add values: int32[n] keys and int64[n] log bins; where either is negative, there is none."""
        row = 0
        while row < len(keys):
            if not len(self.pending):
                self.pending = np.empty(CHUNK, np.uint64)
            self.filled, row = _buffer(self.pending, self.filled, keys, bins, row)
            if self.filled == len(self.pending):
                self.flush()

    def put(self, values: Values) -> None:
        """Add values, uint64[n]: key << BIN_BITS | bin."""
        while len(values):
            if not len(self.pending):
                self.pending = np.empty(CHUNK, np.uint64)
            some = values[: len(self.pending) - self.filled]
            self.pending[self.filled : self.filled + len(some)] = some
            self.filled, values = self.filled + len(some), values[len(some) :]
            if self.filled == len(self.pending):
                self.flush()

    def flush(self) -> None:
        """Make a run of the values that wait."""
        if self.filled:
            values, self.pending, self.filled = self.pending[: self.filled], np.zeros(0, np.uint64), 0
            values.sort()
            self.enter_sorted(values)

    def merge(self, later: Runs) -> None:
        """Take over all values of another, which is used up."""
        later.flush()
        for level, runs in enumerate(later.levels):
            while runs:
                self._enter(runs.pop(), level)

    def compact(self) -> Bytes:
        """The one run of everything."""
        self.flush()
        runs = [run for level in self.levels for run in level]
        self.levels = [[] for _ in self.levels]
        whole = _together(runs)
        self.levels[-1].append(whole)
        return whole

    def quantile(self, q: float, keys: int, *, whole: bool = False) -> npt.NDArray[np.float64]:
        """Quantile q (0 … 1) of keys 0 … keys - 1: float64[keys]; whole: the values are whole numbers."""
        return _quantile(self.compact(), q, WHOLE_CENTRES if whole else REAL_CENTRES, keys)

    def ranked(self, q: Sequence[float], least: int = 1) -> tuple[Ints, Ints, npt.NDArray[np.uint16]]:
        """Whole numbers from which `between` makes quantiles, for keys with at least `least` values.

        q  0 … 1, ascending

        Returns int64[n] keys in order, int64[n] their numbers of values, uint16[n, len(q), 2] the bin of
        the value at or below each quantile and that of the value after it.
        """
        run = self.compact()
        most = len(run) // 3  # a key takes at least 3 bytes
        keys, totals = np.empty((2, most), np.int64)
        bins = np.empty((most, len(q), 2), np.uint16)
        n = _ranked(run, np.asarray(q, np.float64), least, keys, totals, bins)
        return keys[:n].copy(), totals[:n].copy(), bins[:n].copy()

    def entries(self) -> tuple[Ints, Ints, Ints]:
        """All filled bins, by key, then by bin: int64[n] keys, bins, counts."""
        run = self.compact()
        found = np.empty((3, _entries(run, False, np.empty((3, 0), np.int64))), np.int64)
        _entries(run, True, found)
        return found[0], found[1], found[2]

    def __getstate__(self) -> dict[str, object]:
        """What is stored: runs alone, so that no half-filled buffer is."""
        self.flush()
        return self.__dict__

    def enter_sorted(self, values: Values) -> None:
        """Take sorted values, uint64[n]: key << BIN_BITS | bin."""
        self.enter(_coded(values))

    def enter(self, run: Bytes) -> None:
        """Take a run of about CHUNK values."""
        self._enter(run, 0)

    def _enter(self, run: Bytes, level: int) -> None:
        while len(self.levels) <= level:
            self.levels.append([])
        self.levels[level].append(run)
        if len(self.levels[level]) == FAN:
            runs, self.levels[level] = self.levels[level], []
            self._enter(_together(runs), level + 1)


def _together(runs: list[Bytes]) -> Bytes:
    """One run of several, which are dropped from the list as soon as they are copied."""
    if len(runs) == 1:
        return runs.pop()
    edges = np.cumsum([0, *(len(run) for run in runs)])
    joined = np.concatenate(runs) if runs else np.zeros(0, np.uint8)
    runs.clear()
    return _merged(joined, edges)
