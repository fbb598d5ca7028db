"""Arrivals of each request type: gaps, and counts in windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError
from servescope.kernels import moments
from servescope.kernels.histogram import LOG_BINS, count_bins, log_bin, quantile
from servescope.kernels.jit import kernel
from servescope.schema import NULL_INT32
from servescope.views.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Types = npt.NDArray[np.int32]
Tokens = npt.NDArray[np.int32]
PEAK_US = 10_000_000  # windows of the peak and of the span that rates are divided by
MEAN_US = 300_000_000
MOST_CELLS = 1 << 24  # windows x types held for one length of window: 400 MB


@kernel
def _gaps(arrival: Ints, last: int, squares: Words, bins: npt.NDArray[np.int16]) -> None:
    """Write the log bins of the gaps before arrivals, the first one after `last`, and add their squares.

    squares  uint64[2], modified
    bins     int16[rows], modified
    """
    bins[0] = log_bin((arrival[0] - last) / 1e6)
    for i in range(1, len(arrival)):
        bins[i] = log_bin((arrival[i] - arrival[i - 1]) / 1e6)
    moments.add_square(squares, arrival[0] - last)
    high, low, bits = np.uint64(0), np.uint64(0), np.int64(0)
    for i in range(1, len(arrival)):
        gap = arrival[i] - arrival[i - 1]
        bits |= gap
        square = np.uint64(np.uint32(gap)) * np.uint64(np.uint32(gap))
        high += square >> np.uint64(32)
        low += square & np.uint64(0xFFFFFFFF)
    if bits >> 32 == 0:  # all gaps have 32 bits, their squares 64
        moments.add_words(squares, high >> np.uint64(32), high << np.uint64(32))
        moments.add_words(squares, np.uint64(0), low)
        return
    for i in range(1, len(arrival)):
        moments.add_square(squares, arrival[i] - arrival[i - 1])


@kernel
def _gaps_by_type(arrival: Ints, types: Types, first: Ints, last: Ints, squares: Words, bins: Ints) -> None:
    """Fold in the gaps of each type, at 1 + code; no type is no series.

    first, last  int64[scopes], arrivals, -1 for none, modified
    squares      uint64[scopes, 2], modified
    bins         int64[scopes, LOG_BINS], modified
    """
    for i in range(len(arrival)):
        at = np.int64(types[i]) + 1
        if at == 0:
            continue
        if last[at] < 0:
            first[at] = arrival[i]
        else:
            gap = arrival[i] - last[at]
            moments.add_square(squares[at], gap)
            bins[at, log_bin(gap / 1e6)] += 1
        last[at] = arrival[i]


@kernel
def _windows(
    cells: Ints, first: int, window_us: int, arrival: Ints, types: Types, it: Tokens, ot: Tokens
) -> None:
    """Count rows in cells, int64[windows, types + 1, 3], from window `first` on (modified).

    types  empty where there are none
    """
    row, typed = 0, len(types) > 0
    while row < len(arrival):  # runs of one window and type: arrivals are in order, sums stay in registers
        window, kind = arrival[row] // window_us, types[row] if typed else -1
        begun, end = row, (window + 1) * window_us
        while row < len(arrival) and arrival[row] < end and ((not typed) or types[row] == kind):
            row += 1
        inputs, outputs = np.int64(0), np.int64(0)
        for i in range(np.uint64(begun), np.uint64(row)):
            inputs += np.int64(it[i]) if it[i] != NULL_INT32 else np.int64(0)
            outputs += np.int64(ot[i]) if ot[i] != NULL_INT32 else np.int64(0)
        cell = cells[window - first, kind]
        cell[0] += row - begun
        cell[1] += inputs
        cell[2] += outputs


def windows_us(windows_s: Sequence[float]) -> list[int]:
    """Lengths of windows in whole microseconds. Raises UsageError for one that has none."""
    lengths = [round(s * 1e6) for s in windows_s if 0 < s < 1e12]
    if not windows_s or len(lengths) != len(windows_s) or min(lengths) < 1:
        raise UsageError("a window is a number of seconds, at least 0.000001.")
    return lengths


def kept_windows(context: Context) -> list[int]:
    """Lengths of the windows that are counted, microseconds: those asked for, 10 s and 300 s.

    A length with more windows than memory should hold is left out; see `notes`.
    """
    types = len(context.texts.get("request_type", ())) + 1
    wanted = dict.fromkeys([*windows_us(context.options.windows_s), PEAK_US, MEAN_US])
    return [us for us in wanted if (context.last_us // us + 1) * types <= MOST_CELLS]


def _base(us: int, kept: Sequence[int]) -> int:
    """Length of the windows of which those of a kept length are made up: the shortest that divides it."""
    return min((other for other in kept if other < us and us % other == 0), default=us)


def notes(context: Context) -> list[str]:
    """One sentence for every length of window that is left out."""
    wanted = dict.fromkeys([*windows_us(context.options.windows_s), PEAK_US, MEAN_US])
    kept = kept_windows(context)
    return [
        f"windows of {us / 1e6:g} s are left out: the span of {context.last_us / 1e6:,.0f} s would need "
        f"{context.last_us // us + 1:,} of them for each request type"
        for us in wanted
        if us not in kept
    ]


@dataclass
class Gaps:
    """What is known of one scope's gaps; times in seconds, None where undefined."""

    requests: int
    span_us: int
    squares: int
    bins: Ints

    @property
    def positive(self) -> int:
        """Gaps above zero."""
        return int(self.bins[1:].sum())

    def mean_s(self, gaps: int) -> float | None:
        """Mean over all gaps or over the positive ones."""
        return self.span_us / gaps / 1e6 if gaps else None

    def cv(self, gaps: int, *, sample: bool = False) -> float | None:
        """Coefficient of variation over all gaps or over the positive ones."""
        return moments.variation(gaps, self.span_us, self.squares, sample=sample)

    def p50_s(self, *, positive: bool = False) -> float | None:
        """Median over all gaps or over the positive ones."""
        bins = self.bins.copy()
        if positive:
            bins[0] = 0
        return quantile(bins, 0.5)


@dataclass
class Arrivals:
    """Gaps by scope (0 = all, 1 + type; a last slot stays empty), windows by type (no type at the end).

    kept     lengths of windows that are given out
    windows  those of them that are counted; the others are whole numbers of these
    """

    context: Context
    first: Ints = field(init=False)
    last: Ints = field(init=False)
    squares: npt.NDArray[np.uint64] = field(init=False)
    bins: Ints = field(init=False)
    windows: dict[int, Timeline] = field(init=False)
    kept: list[int] = field(init=False)

    def __post_init__(self) -> None:
        slots = len(self.context.texts.get("request_type", ())) + 1
        self.first = np.full(slots + 1, -1, np.int64)
        self.last = self.first.copy()
        self.squares = np.zeros((slots + 1, 2), np.uint64)
        self.bins = np.zeros((slots + 1, LOG_BINS), np.int64)
        self.kept = kept_windows(self.context)
        counted = [us for us in self.kept if _base(us, self.kept) == us]
        self.windows = {us: Timeline((slots, 3)) for us in counted}

    def update(
        self,
        arrival: Ints,
        types: Types,
        it: Tokens,
        ot: Tokens,
    ) -> None:
        """Fold in the next rows: arrival, type code (empty: no types), input and output tokens."""
        self._add_gaps(arrival)
        if len(types):
            _gaps_by_type(arrival, types, self.first, self.last, self.squares, self.bins)
        for us, line in self.windows.items():
            line.reach(int(arrival[0]) // us, int(arrival[-1]) // us)
            _windows(line.held, line.first, us, arrival, types, it, ot)

    def _add_gaps(self, arrival: Ints) -> None:
        """Fold in the gaps of the whole trace."""
        after = arrival
        if self.last[0] < 0:
            self.first[0] = self.last[0] = arrival[0]
            after = arrival[1:]
        if len(after):
            bins = np.empty(len(after), np.int16)
            _gaps(after, int(self.last[0]), self.squares[0], bins)
            count_bins(self.bins[0], bins)
            self.last[0] = after[-1]

    def merge(self, later: Arrivals) -> None:
        """Fold in the adjacent, later slice; the gaps across the border are added."""
        for scope in np.flatnonzero((self.last >= 0) & (later.first >= 0)):
            gap = int(later.first[scope] - self.last[scope])
            moments.add_square(self.squares[scope], gap)
            self.bins[scope, log_bin(gap / 1e6)] += 1
        self.first = np.where(self.first < 0, later.first, self.first)
        self.last = np.where(later.last < 0, self.last, later.last)
        moments.added(self.squares, later.squares)
        self.bins += later.bins
        for us, line in self.windows.items():
            line.merge(later.windows[us])

    def gaps(self, scope: int) -> Gaps:
        """The gaps of scope 0 (all) or 1 + type."""
        bins = self.bins[scope]
        requests = int(bins.sum()) + (1 if self.first[scope] >= 0 else 0)
        span = int(self.last[scope] - self.first[scope])
        return Gaps(requests, span, moments.as_int(self.squares[scope]), bins)

    def counts(self, us: int, scope: int) -> Ints | None:
        """int64[windows, 3] from time 0 to the last request: requests, input, output; None if left out.

        scope  0 (all) or 1 + type
        """
        if us not in self.kept:
            return None
        base = _base(us, self.kept)
        line = self.windows[base]
        alone = line.held.shape[1] == 1  # no types: nothing to add up, nothing to copy
        counts = line.held.sum(axis=1) if scope == 0 and not alone else line.held[:, max(scope - 1, 0)]
        if line.first:
            counts = np.concatenate([np.zeros((line.first, 3), np.int64), counts])
        return counts if us == base else np.add.reduceat(counts, np.arange(0, len(counts), us // base))
