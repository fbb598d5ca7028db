"""`user_month_gap`: after how long users come back, month by month."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.frequent import of_gaps
from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.kernels.prefetch import prefetch
from servescope.kernels.room import grown
from servescope.kernels.runs import Runs, between
from servescope.tables import category, table
from servescope.views.clock import month_runs, month_start_us
from servescope.views.sketch import TIMES, Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

Ints = npt.NDArray[np.int64]
Bins = npt.NDArray[np.int16]
COLUMNS = ("arrival_us", "user")
QUANTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9}
ENOUGH = 10  # gaps of a user in a month
US_PER_S = 1e6
AHEAD = 512  # rows whose memory is asked for at once
DOC = (
    "Gaps above 0 between a user's consecutive requests (seconds), both in the same month of the trace "
    "clock, of every user and month with at least 10 such gaps; quantiles are off by less than 2.4 %."
)


@kernel
def _fold(starts: Ints, month_start: int, user: npt.NDArray[np.int32], arrival: Ints, bins: Bins) -> None:
    """Write the bins of the gaps that end in rows of one month, 0 for none, to bins, int16[rows].

    starts       int64[users, 2], first arrival + 1 (0: none) and last arrival, modified
    month_start  on the clock of the arrivals
    """
    gaps = np.empty(AHEAD, np.int64)
    for begin in range(0, len(user), AHEAD):
        end = min(begin + AHEAD, len(user))
        for i in range(begin, end):
            prefetch(starts, np.int64(user[i]) * 2)
        for i in range(begin, end):
            gaps[i - begin] = 0
            if user[i] >= 0:
                who = np.uint64(user[i])
                first, last = starts[who, 0], starts[who, 1]
                gaps[i - begin] = (arrival[i] - last) * ((first != 0) & (last >= month_start))
                starts[who, 0] = first if first != 0 else arrival[i] + 1
                starts[who, 1] = arrival[i]
        for i in range(begin, end):
            bins[i] = log_bin(gaps[i - begin] / US_PER_S)


@kernel
def _stitch(starts: Ints, month_start: int, month_end: int, later: Ints) -> Bins:
    """Bins of the gaps between this slice and the adjacent, later one, 0 for none: int16[len(later)].

    starts, later           int64[users, 2] of both slices; `starts` is modified and at least as long
    month_start, month_end  of the later slice's first month, on the clock of the arrivals
    """
    bins = np.zeros(len(later), np.int16)
    for who in range(len(later)):
        if later[who, 0] == 0:
            continue
        first, last = later[who, 0] - 1, starts[who, 1]
        if starts[who, 0] == 0:
            starts[who, 0] = first + 1
        elif first > last and last >= month_start and first < month_end:
            bins[who] = log_bin((first - last) / US_PER_S)
        starts[who, 1] = later[who, 1]
    return bins


@dataclass(frozen=True)
class Month:
    """A finished month: users with enough gaps, their number, the bins around each quantile."""

    month: int
    users: Ints
    gaps: Ints
    bins: npt.NDArray[np.uint16]


@dataclass
class UserGaps:
    """Gaps of months that may still get some, and what is left of the finished ones.

    starts  int64[users met so far, 2], first arrival + 1 (0: none) and last arrival
    whole   the trace begins in this slice, so that its first month can be finished
    first   first month of the slice, 0 before the first row
    last    its last month
    open    month -> gaps by user
    done    finished months in order
    """

    context: Context
    starts: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    whole: bool = False
    first: int = 0
    last: int = 0
    open: dict[int, Runs] = field(default_factory=dict)
    done: list[Month] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        user, arrival = int32(batch, "user"), int64(batch, "arrival_us")
        self.starts = grown(self.starts, 1 + int(user.max()))
        clock_us = self.context.meta.origin.clock_us
        bins = np.empty(batch.rows, np.int16)
        for month, low, high in month_runs(arrival, clock_us):
            if not self.first:
                self.first, self.whole = month, batch.start == 0
            self.last = month
            start = month_start_us(month) - clock_us
            _fold(self.starts, start, user[low:high], arrival[low:high], bins[low:high])
            if month not in self.open:
                before = self.open[max(self.open)].given_up() if self.open else None
                self.open[month] = Runs(before or of_gaps())
            self.open[month].count(user[low:high], bins[low:high])
            self._finish()

    def _finish(self) -> None:
        """Close the months that nothing can be added to any more."""
        for month in sorted(self.open):
            if month < self.last and (self.whole or month > self.first):
                self.done.append(_month(month, self.open.pop(month)))

    def merge(self, later: UserGaps) -> None:
        """Fold in the adjacent, later slice, whose months are taken over."""
        if not later.first:
            return
        if not self.first:
            for name in ("starts", "whole", "first", "last", "open", "done"):
                setattr(self, name, getattr(later, name))
            return
        for month, gaps in later.open.items():
            if month in self.open:
                self.open[month].merge(gaps)
            else:
                self.open[month] = gaps
        clock_us = self.context.meta.origin.clock_us
        start, end = (month_start_us(month) - clock_us for month in (later.first, later.first + 1))
        self.starts = grown(self.starts, len(later.starts))
        bins = _stitch(self.starts, start, end, later.starts)
        some = np.flatnonzero(bins)
        self.open[later.first].add(some.astype(np.int32), bins[some].astype(np.int64))
        self.last = later.last
        self._finish()
        self.done += later.done

    def tables(self) -> list[Table]:
        """`user_month_gap`, by month, then by user in order of first appearance."""
        opened = [_month(month, gaps) for month, gaps in self.open.items()]
        parts = sorted([_month(0, Runs()), *self.done, *opened], key=lambda one: one.month)
        months = np.repeat([one.month for one in parts], [len(one.users) for one in parts])
        users = np.concatenate([one.users for one in parts])
        gaps = np.concatenate([one.gaps for one in parts])
        bins = np.concatenate([one.bins for one in parts])
        found = between(gaps, bins, tuple(QUANTILES.values()))
        columns = {
            "user": category(users, self.context.strings("user")),
            "month": (pa.int64(), months),
            "n_gaps": (pa.int64(), gaps),
            **{name: (pa.float64(), found[:, at]) for at, name in enumerate(QUANTILES)},
        }
        return [table("user_month_gap", columns, DOC)]


def _month(month: int, gaps: Runs) -> Month:
    return Month(month, *gaps.ranked(tuple(QUANTILES.values()), ENOUGH))


VIEW = View("user_gaps", COLUMNS, {"user_month_gap": ("user", TIMES)}, UserGaps)
