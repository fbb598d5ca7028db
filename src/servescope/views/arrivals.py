"""Arrivals of each request type: gaps, and counts in windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError
from servescope.kernels import moments
from servescope.kernels.histogram import LOG_BINS, log_bin, quantile
from servescope.kernels.jit import kernel
from servescope.schema import NULL_INT32
from servescope.views.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]
PEAK_US = 10_000_000  # windows of the peak and of the span that rates are divided by
MEAN_US = 300_000_000
NO_TYPES = 2  # scopes where there is no type: all, and one that stays empty
MOST_CELLS = 1 << 24  # windows x types held for one length of window: 400 MB


@kernel
def _gaps(
    arrival: npt.NDArray[np.int64],
    types: npt.NDArray[np.int32],
    first: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    squares: npt.NDArray[np.uint64],
    bins: npt.NDArray[np.int64],
) -> None:
    """Fold the gaps of the whole trace (scope 0) and of each type (1 + code); no type is no series.

    first, last  int64[scopes], arrivals, -1 for none, modified
    squares      uint64[scopes, 2], modified
    bins         int64[scopes, LOG_BINS], modified
    """
    for scope in range(1 if len(bins) <= NO_TYPES else 2):
        for i in range(len(arrival)):
            at = np.int64(types[i]) + 1 if scope else 0
            if scope and at == 0:
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
    cells: npt.NDArray[np.int64],
    first: int,
    window_us: int,
    arrival: npt.NDArray[np.int64],
    types: npt.NDArray[np.int32],
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
) -> None:
    """Count rows in cells, int64[windows, types + 1, 3], from window `first` on (modified)."""
    row = 0
    while row < len(arrival):  # runs of one window and type: arrivals are in order, sums stay in registers
        window, kind = arrival[row] // window_us, types[row]
        end = (window + 1) * window_us
        requests, inputs, outputs = 0, 0, 0
        while row < len(arrival) and arrival[row] < end and types[row] == kind:
            requests += 1
            inputs += it[row] if it[row] != NULL_INT32 else 0
            outputs += ot[row] if ot[row] != NULL_INT32 else 0
            row += 1
        cell = cells[window - first, kind]
        cell[0] += requests
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
        types: npt.NDArray[np.int32],
        it: npt.NDArray[np.int32],
        ot: npt.NDArray[np.int32],
    ) -> None:
        """Fold in the next rows: arrival, type code, input and output tokens."""
        _gaps(arrival, types, self.first, self.last, self.squares, self.bins)
        for us, line in self.windows.items():
            line.reach(int(arrival[0]) // us, int(arrival[-1]) // us)
            _windows(line.held, line.first, us, arrival, types, it, ot)

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
