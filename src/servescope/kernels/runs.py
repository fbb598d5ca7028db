"""Log histograms of very many keys in few bytes: sorted runs of coded bins, merged sixteen at a time.

Values are buffered, sorted and coded as a run; runs of a like size are merged as they pile up, as in a
log-structured merge tree. So memory is read and written in order, where a table of pages pays several cache
misses a value, and a value of a rarely seen key takes 1 to 2 bytes instead of most of a page.

    held = Runs()
    held.add(keys, bins)        # int32[n] keys, int64[n] bins from `histogram.log_bin`
    held.merge(later)           # takes over the runs of another; any order gives the same counts
    held.quantile(0.5, keys)    # float64[keys], NaN where a key has no value
    held.ranked((0.5, 0.9), 10) # the same in whole numbers, of keys with at least 10 values
    pieces(held.compact(), 9)   # of `run_pieces`: key, bin and count of all filled bins, 9 at a time

The coding of a run is that of `run_coding`. Values of keys that come often need no
sorting: see `frequent`.

Slow twin: tests/reference/runs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import REAL_CENTRES, WHOLE_CENTRES
from servescope.kernels.jit import kernel
from servescope.kernels.run_coding import (
    BIN_BITS,
    Bytes,
    Ints,
    Values,
    coded,
    fill_ranked,
    merged,
    quantiles,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servescope.kernels.frequent import Frequent

CHUNK = 1 << 19  # values that are sorted at once
FAN = 16  # runs of a level that are merged into one of the next


def between(
    totals: Ints, bins: npt.NDArray[np.uint16], q: Sequence[float], *, whole: bool = False
) -> npt.NDArray[np.float64]:
    """Quantiles from what `Runs.ranked` gives, by the rule of `histogram.quantile`: float64[n, len(q)]."""
    exact = (totals[:, None] - 1) * np.asarray(q, np.float64)
    first, after = np.moveaxis((WHOLE_CENTRES if whole else REAL_CENTRES)[bins], -1, 0)
    found: npt.NDArray[np.float64] = first + (exact - np.floor(exact)) * (after - first)
    return found


@kernel
def _packed(keys: npt.NDArray[np.int32], bins: Ints, values: Values) -> int:
    """Write values to the first of values, uint64[n]; how many there are."""
    found = 0
    for row in range(len(keys)):
        # no branch: what does not count is overwritten by the next value
        values[found] = np.uint64(np.int64(keys[row]) << BIN_BITS | bins[row])
        found += (keys[row] >= 0) & (bins[row] >= 0)
    return found


class Pending:
    """Values that are sorted once there are CHUNK of them. Changed by `chunks` and `sorted`.

    held    uint64[CHUNK], the first `filled` of them; empty before the first
    """

    def __init__(self) -> None:
        self.held: Values = np.zeros(0, np.uint64)
        self.filled = 0

    def chunks(self, values: Values) -> Iterator[Values]:
        """Append values; CHUNK of all, sorted, each time that there are so many."""
        while len(values):
            if not len(self.held):
                self.held = np.empty(CHUNK, np.uint64)
            some = values[: len(self.held) - self.filled]
            self.held[self.filled : self.filled + len(some)] = some
            self.filled += len(some)
            values = values[len(some) :]
            if self.filled == len(self.held):
                yield self.sorted()

    def sorted(self) -> Values:
        """All values, sorted; there are none any more."""
        values = self.held[: self.filled]
        self.held, self.filled = np.zeros(0, np.uint64), 0
        values.sort()
        return values


class Runs:
    """Log histograms by key, see the module. Changed by `add`, `count`, `put`, `merge`, `compact`.

    often    counts of keys that come often, of one number, for `count`; they are not in a run yet
    levels   runs by level, fewer than FAN at each
    pending  values not yet in a run
    """

    def __init__(self, often: Frequent | None = None) -> None:
        self.often = often
        self.levels: list[list[Bytes]] = [[]]
        self.pending = Pending()

    def add(self, keys: npt.NDArray[np.int32], bins: Ints) -> None:
        """Add values: int32[n] keys and int64[n] log bins; where either is negative, there is none."""
        values = np.empty(len(keys), np.uint64)
        self.put(values[: _packed(keys, bins, values)])

    def count(self, keys: npt.NDArray[np.int32], bins: npt.NDArray[np.int16]) -> None:
        """Add values as `add`, those of keys that come often to `often`, which there must be.

        keys, bins  int32[n] and int16[n]; with a key below 0 or a bin of 0 or less there is no value
        """
        assert self.often is not None
        self.put(self.often.sift(keys, bins, bins))
        if self.often.full:
            self.enter(*self.often.taken())

    def given_up(self) -> Frequent | None:
        """Its `often`, whose keys keep their pages, for other runs; it has none any more."""
        often, self.often = self.often, None
        if often and often.used:
            self.enter(*often.taken(keep=True))
        return often

    def put(self, values: Values) -> None:
        """Add values, uint64[n]: key << BIN_BITS | bin."""
        for chunk in self.pending.chunks(values):
            self.enter_sorted(chunk)

    def flush(self) -> None:
        """Make runs of all that is in none."""
        if self.often and self.often.used:
            self.enter(*self.often.taken())
        if self.pending.filled:
            self.enter_sorted(self.pending.sorted())

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
        return self.quantile_and_totals(q, keys, whole=whole)[0]

    def quantile_and_totals(
        self, q: float, keys: int, *, whole: bool = False
    ) -> tuple[npt.NDArray[np.float64], Ints]:
        """As `quantile`, and how many values each key has: int64[keys]."""
        totals = np.zeros(keys, np.int64)
        return quantiles(self.compact(), q, WHOLE_CENTRES if whole else REAL_CENTRES, totals), totals

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
        n = fill_ranked(run, np.asarray(q, np.float64), least, keys, totals, bins)
        return keys[:n].copy(), totals[:n].copy(), bins[:n].copy()

    def __getstate__(self) -> dict[str, object]:
        """What is stored: runs alone, so that neither counts nor a half-filled buffer is."""
        self.flush()
        return self.__dict__

    def enter_sorted(self, values: Values) -> None:
        """Take sorted values, uint64[n]: key << BIN_BITS | bin."""
        self.enter(coded(values))

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
    return merged(joined, edges)
