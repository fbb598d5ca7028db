"""How a run of `runs` is coded: writing it from sorted values, merging, reading.

A run is uint8[n]: for each key, ascending, its distance from the key before (the first from -1), then its
bins, then 0. A bin is its distance from the bin before (the first from -1), doubled, plus 1 if a count
follows; else the count is 1. All numbers are LEB128, and none but the end is 0.

Slow twin: tests/reference/runs.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel, inlined, kernel
from servescope.kernels.words import lowest_bit

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.uint64]

BIN_BITS = 12  # a bin is below LOG_BINS = 2,501
BIN_MASK = np.uint64((1 << BIN_BITS) - 1)
WORDS = (1 << BIN_BITS) // 64  # of bits for all bins: 64, so that one word has a bit for each
NO_KEY = 2**62
WORST_BYTES = 12  # of one value: key 5, bin 2, count 4, end 1


@borrowing_kernel
def put_number(out: Bytes, at: int, number: int) -> int:
    """Write a number above 0 at `at`; where it ends."""
    while number >= 0x80:
        out[at] = np.uint8(number & 0x7F | 0x80)
        number >>= 7
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@borrowing_kernel
def number_at(run: Bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    number = shift = 0
    while run[at] >= 0x80:
        number |= int(np.int64(run[at]) & 0x7F) << shift
        shift += 7
        at += 1
    return number | int(np.int64(run[at])) << shift, at + 1


@borrowing_kernel
def put_bin(out: Bytes, at: int, distance: int, times: int) -> int:
    """Write a bin, `distance` after the bin before, with its count above 0; where it ends."""
    at = put_number(out, at, distance << 1 | (times > 1))
    if times > 1:
        at = put_number(out, at, times)
    return at


@borrowing_kernel
def bin_at(run: Bytes, at: int, before: int) -> tuple[int, int, int]:
    """The bin at `at`, after the bin before; its count; where it ends."""
    code, at = number_at(run, at)
    times = 1
    if code & 1:
        times, at = number_at(run, at)
    return before + (code >> 1), times, at


@kernel
def coded(values: Values) -> npt.NDArray[np.uint8]:
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
            at = put_bin(out, at, here - last_bin, i - first)
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
        here, times, at = bin_at(run, at, here)
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
            at = put_bin(out, at, here - last, int(counts[here]))
            counts[here] = 0
            last = here
    out[at] = 0
    return at + 1


@inlined
def next_key(run: Bytes, at: int, end: int, key: int) -> tuple[int, int]:
    """The key after `key`, NO_KEY at the end, and where its bins begin."""
    if at >= end:
        return NO_KEY, at
    distance, at = number_at(run, at)
    return key + distance, at


@kernel
def merged(runs: Bytes, edges: Ints) -> npt.NDArray[np.uint8]:
    """One run of several; run i is runs[edges[i]:edges[i + 1]]."""
    many = len(edges) - 1
    keys, places = np.full(many, -1, np.int64), edges[:-1].copy()
    for i in range(many):
        keys[i], places[i] = next_key(runs, places[i], edges[i + 1], -1)
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
            keys[first], places[first] = next_key(runs, place + 1, edges[first + 1], key)
            continue
        for i in range(first, many):
            if keys[i] == key:
                place = _add_bins(runs, places[i], counts, filled)
                keys[i], places[i] = next_key(runs, place, edges[i + 1], key)
        at = put_bins(out, at, counts, filled)


@inlined
def _read_bins(run: Bytes, at: int, places: Ints, upto: Ints) -> tuple[int, int]:
    """Write a key's bins from `at` on to places, and to upto the values up to and with each; bins, end."""
    here, total, n = -1, 0, 0
    while run[at] != 0:
        here, times, at = bin_at(run, at, here)
        total += times
        places[n], upto[n] = here, total
        n += 1
    return n, at + 1


@kernel
def quantiles(
    run: Bytes, q: float, centres: npt.NDArray[np.float64], totals: Ints
) -> npt.NDArray[np.float64]:
    """Quantile of every key by the rule of `histogram.quantile`: float64[keys], NaN without values.

    totals  int64[keys], modified: number of values, not written without
    """
    found = np.full(len(totals), np.nan)
    places, upto = np.empty(1 << BIN_BITS, np.int64), np.empty(1 << BIN_BITS, np.int64)
    key, at = next_key(run, 0, len(run), -1)
    while key != NO_KEY:
        n, at = _read_bins(run, at, places, upto)
        totals[key] = upto[n - 1]
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
        key, at = next_key(run, at, len(run), key)
    return found


@kernel
def fill_ranked(
    run: Bytes, q: npt.NDArray[np.float64], least: int, keys: Ints, totals: Ints, bins: npt.NDArray[np.uint16]
) -> int:
    """Fill the first rows of keys, totals and bins as `Runs.ranked` gives them; their number."""
    places, upto = np.empty(1 << BIN_BITS, np.int64), np.empty(1 << BIN_BITS, np.int64)
    row = 0
    key, at = next_key(run, 0, len(run), -1)
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
        key, at = next_key(run, at, len(run), key)
    return row
