"""Log histograms by key of two whole numbers of every row, such as the input and output of a request.

    held = ShapeRuns()
    held.add(keys, first, second)       # int32[n] keys, int16[n] log bins of both numbers, of 1 and more
    held.merge(later)                   # takes over the values of another; any order gives the same counts
    held.quantiles(0.5, keys)           # float64[2, keys], NaN where a key has no row; int64[keys], rows

Rows are sorted once for both numbers, and those of keys that come often not at all.

Slow twin: tests/reference/runs.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.frequent import Frequent
from servescope.kernels.jit import kernel
from servescope.kernels.run_coding import (
    BIN_BITS,
    BIN_MASK,
    WORDS,
    WORST_BYTES,
    Values,
    put_bins,
    put_number,
)
from servescope.kernels.runs import Pending, Runs

Codes = npt.NDArray[np.int32]
Bins = npt.NDArray[np.int16]
LOW, WIDTH = 1_201, 576  # bins of pages: from 1 up to before 575,000


@kernel
def _second_coded(values: Values) -> npt.NDArray[np.uint8]:
    """The run (see `runs`) of keys and second bins of sorted values, uint64[n]."""
    out = np.empty(WORST_BYTES * len(values), np.uint8)
    counts, filled = np.zeros(1 << BIN_BITS, np.int64), np.zeros(WORDS + 1, np.uint64)
    at, i, last_key = 0, 0, -1
    while i < len(values):
        key = int(np.int64(values[i] >> np.uint64(2 * BIN_BITS)))
        at = put_number(out, at, key - last_key)
        last_key = key
        while i < len(values) and np.int64(values[i] >> np.uint64(2 * BIN_BITS)) == key:
            here = np.int64(values[i] & BIN_MASK)
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
    often    counts of keys that come often; they are not in a run yet
    pending  values not yet in a run: key, first and second bin
    """

    def __init__(self) -> None:
        self.both = (Runs(), Runs())
        self.often = Frequent(2, LOW, WIDTH)
        self.pending = Pending()

    def add(self, keys: Codes, first: Bins, second: Bins) -> None:
        """See the module; rows with a key below 0 or a bin of 0 are left out."""
        values = self.often.sift(keys, first, second)
        if self.often.full:
            self._empty()
        for chunk in self.pending.chunks(values):
            self._enter(chunk)

    def _empty(self) -> None:
        """Make runs of counts."""
        for held, run in zip(self.both, self.often.taken(), strict=True):
            held.enter(run)

    def _enter(self, values: Values) -> None:
        """Make runs of sorted values, which are used up."""
        self.both[1].enter(_second_coded(values))
        _without_second(values)
        self.both[0].enter_sorted(values)

    def _flush(self) -> None:
        if self.often.used:
            self._empty()
        if self.pending.filled:
            self._enter(self.pending.sorted())

    def merge(self, later: ShapeRuns) -> None:
        """See the module."""
        self._flush()
        later._flush()
        for own, other in zip(self.both, later.both, strict=True):
            own.merge(other)

    def quantiles(self, q: float, keys: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """See the module."""
        self._flush()
        (first, rows), (second, _) = (held.quantile_and_totals(q, keys, whole=True) for held in self.both)
        return np.stack([first, second]), rows

    def __getstate__(self) -> dict[str, object]:
        """What is stored: runs alone, so that neither counts nor a half-filled buffer is."""
        self._flush()
        return self.__dict__
