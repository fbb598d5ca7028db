"""Log histograms by key of two whole numbers of every row, such as the input and output of a request.

    held = ShapeRuns()
    held.add(keys, first, second)       # int32[n] keys, int16[n] log bins of both numbers, of 1 and more
    held.merge(later)                   # takes over the values of another; any order gives the same counts
    held.quantiles(0.5, keys)           # float64[2, keys], NaN where a key has no value

Rows are sorted once for both numbers. A table of counts is no faster, even for the 9,000 models of a
year: it is larger than the processor's cache.

Slow twin: tests/reference/runs.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels import runs
from servescope.kernels.jit import kernel
from servescope.kernels.runs import BIN_BITS, WORDS, Runs, Values, put_bins, put_number

Codes = npt.NDArray[np.int32]
Bins = npt.NDArray[np.int16]
MASK = np.uint64((1 << BIN_BITS) - 1)


@kernel
def _buffer(
    pending: Values, filled: int, keys: Codes, first: Bins, second: Bins, row: int
) -> tuple[int, int]:
    """Append values from `row` on until the buffer is full: values held, row reached."""
    while row < len(keys) and filled < len(pending):
        # no branch: what does not count is overwritten by the next value
        bins = np.int64(first[row]) << BIN_BITS | np.int64(second[row])
        pending[filled] = np.uint64(np.int64(keys[row]) << (2 * BIN_BITS) | bins)
        filled += (keys[row] >= 0) & (first[row] > 0) & (second[row] > 0)
        row += 1
    return filled, row


@kernel
def _second_coded(values: Values) -> npt.NDArray[np.uint8]:
    """The run (see `runs`) of keys and second bins of sorted values, uint64[n]."""
    out = np.empty(runs.WORST_BYTES * len(values), np.uint8)
    counts, filled = np.zeros(1 << BIN_BITS, np.int64), np.zeros(WORDS + 1, np.uint64)
    at, i, last_key = 0, 0, -1
    while i < len(values):
        key = int(np.int64(values[i] >> np.uint64(2 * BIN_BITS)))
        at = put_number(out, at, key - last_key)
        last_key = key
        while i < len(values) and np.int64(values[i] >> np.uint64(2 * BIN_BITS)) == key:
            here = np.int64(values[i] & MASK)
            counts[here] += 1
            filled[here >> 6] |= np.uint64(1) << np.uint64(here & 63)
            filled[WORDS] |= np.uint64(1) << np.uint64(here >> 6)
            i += 1
        at = put_bins(out, at, counts, filled)
    return out[:at].copy()


@kernel
def _without_second(values: Values) -> None:
    """Leave keys and first bins of sorted values, which stay sorted."""
    for i in range(len(values)):
        values[i] >>= np.uint64(BIN_BITS)


class ShapeRuns:
    """Sorted runs of both numbers. Changed by `add`, `merge`.

    both     runs of the first and of the second number
    pending  uint64[CHUNK], values not yet in a run: key, first and second bin; the first `filled` of them
    """

    def __init__(self) -> None:
        self.both = (Runs(), Runs())
        self.pending: Values = np.zeros(0, np.uint64)
        self.filled = 0

    def add(self, keys: Codes, first: Bins, second: Bins) -> None:
        """See the module; rows with a key below 0 or a bin of 0 are left out."""
        row = 0
        while row < len(keys):
            if not len(self.pending):
                self.pending = np.empty(runs.CHUNK, np.uint64)
            self.filled, row = _buffer(self.pending, self.filled, keys, first, second, row)
            if self.filled == len(self.pending):
                self._flush()

    def _flush(self) -> None:
        if self.filled:
            values, self.pending, self.filled = self.pending[: self.filled], np.zeros(0, np.uint64), 0
            values.sort()
            self.both[1].enter(_second_coded(values))
            _without_second(values)
            self.both[0].enter_sorted(values)

    def merge(self, later: ShapeRuns) -> None:
        """See the module."""
        self._flush()
        later._flush()
        for own, other in zip(self.both, later.both, strict=True):
            own.merge(other)

    def quantiles(self, q: float, keys: int) -> npt.NDArray[np.float64]:
        """See the module."""
        self._flush()
        return np.stack([held.quantile(q, keys, whole=True) for held in self.both])

    def __getstate__(self) -> dict[str, object]:
        """What is stored: runs alone, so that no half-filled buffer is."""
        self._flush()
        return self.__dict__
