"""The order of Parquet rows in time: checked by reading the times alone, mended within a window.

A prologue goes through the times of all row groups once and holds one row group at a time. In a file
that is in order every row group becomes one run. Where rows are late by no more than the window, runs
are cut at times before which nothing can arrive any more, so that a run is sorted from few row groups.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.ledger import Ledger

Ints = npt.NDArray[np.int64]
NO_LIMIT = 2**63 - 1
LONGEST = 2**62  # in units of the source: 146 years of nanoseconds


class DisorderError(DataError):
    """Rows are later than the window allows: the file cannot be streamed in place."""


@dataclass(frozen=True)
class Run:
    """Consecutive rows of the trace: those of groups `first` to `last` with low <= time < high.

    ordered  the rows are those of one group, in its own order: nothing to pick or sort
    rows     how many they are
    """

    first: int
    last: int
    rows: int
    ordered: bool = True
    low: int = -NO_LIMIT
    high: int = NO_LIMIT


@dataclass
class Survey:
    """What the first look at the times found; filled group by group.

    lows, highs  earliest and latest time of each group (`NO_LIMIT`, -`NO_LIMIT` for an empty one)
    rows         rows of each group that stay
    early        rows that are earlier than the row before them
    late         how far a row lies behind the latest before it, at most
    inner        whether a group is in order in itself
    """

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    inner: list[bool] = field(default_factory=list)
    early: int = 0
    late: int = 0
    last: int | None = None
    latest: int = -NO_LIMIT

    @property
    def first_time(self) -> int:
        """The earliest time of all."""
        return min(self.lows)

    def add(self, times: Ints) -> int:
        """Take the times of the next group; returns the index of its first late row, -1 for none."""
        self.rows.append(len(times))
        if not len(times):
            self.lows.append(NO_LIMIT)
            self.highs.append(-NO_LIMIT)
            self.inner.append(True)
            return -1
        back = np.flatnonzero(times[1:] < times[:-1]) + 1
        crossing = self.last is not None and times[0] < self.last
        self.lows.append(int(times.min()) if len(back) else int(times[0]))
        self.highs.append(int(times.max()) if len(back) else int(times[-1]))
        self.inner.append(not len(back))
        self.early += len(back) + int(crossing)
        first = 0 if crossing else (int(back[0]) if len(back) else -1)
        if len(back) or self.lows[-1] < self.latest:
            running = np.maximum(np.maximum.accumulate(times), self.latest)
            self.late = max(self.late, int((running - times).max()))
        self.last = int(times[-1])
        self.latest = max(self.latest, self.highs[-1])
        if self.latest - self.first_time >= LONGEST:
            raise DataError("the times of the file are more than 146 years apart; are they times?")
        return first


@dataclass
class Ties:
    """Timestamps that several requests share, counted along the sorted times."""

    last: int | None = None
    inside: bool = False
    shared: int = 0
    requests: int = 0

    def add(self, times: Ints) -> None:
        """Take the next sorted times. Changes the counts."""
        if not len(times):
            return
        joins = self.last == times[0]
        equal = times[1:] == times[:-1]
        count = int(joins) + int(np.count_nonzero(equal))
        if count:
            goes_on = int(joins and self.inside) + int(joins and len(equal) and equal[0])
            starts = count - goes_on - int(np.count_nonzero(equal[1:] & equal[:-1]))
            self.shared += starts
            self.requests += count + starts
        self.inside = bool(equal[-1]) if len(equal) else bool(joins)
        self.last = int(times[-1])

    def note(self, ledger: Ledger) -> None:
        """Say it in the ledger (same sentence as for sources that are read row by row)."""
        ledger.note(
            "shared_timestamps",
            f"{{n}} timestamp is shared by {self.requests:,} requests",
            f"{{n}} timestamps are shared by {self.requests:,} requests",
            count=self.shared,
        )


def runs_in_order(survey: Survey) -> tuple[Run, ...]:
    """One run a group, for groups that are in order."""
    return tuple(Run(g, g, rows) for g, rows in enumerate(survey.rows) if rows)


def runs_in_window(
    survey: Survey, window: int, times_of: Callable[[int], Ints], ties: Ties
) -> tuple[Run, ...]:
    """Runs of a source whose rows are late by at most `window` (in the source's unit).

    times_of  group -> its times; every group is read once more
    ties      takes the times in order

    Between groups that do not reach into one another a run ends with the group. Elsewhere it ends at
    the latest time so far less the window: no row before that can follow. Rows after it wait, and there
    are never more of them than arrive within the window.
    """
    later = _latest_before(survey)
    clean = _clean(survey, later)
    runs: list[Run] = []
    waiting = np.zeros(0, np.int64)
    low, first = -NO_LIMIT, 0
    for g in range(len(survey.rows)):
        waiting = np.sort(np.concatenate([waiting, times_of(g)]), kind="stable")
        high = NO_LIMIT if clean[g] else later[g] - window
        count = len(waiting) if clean[g] else int(np.searchsorted(waiting, high))
        if count:
            alone = first == g and clean[g] and low == -NO_LIMIT and survey.inner[g]
            runs.append(Run(first, g, count, alone, low, high))
            ties.add(waiting[:count])
        waiting = waiting[count:]
        if clean[g]:
            low, first = -NO_LIMIT, g + 1
        else:
            low = max(low, high)
            while first <= g and survey.highs[first] < low:
                first += 1
    return tuple(runs)


def _latest_before(survey: Survey) -> list[int]:
    """Latest time of all groups up to and with each."""
    return list(itertools.accumulate(survey.highs, max))


def _clean(survey: Survey, later: list[int]) -> list[bool]:
    """For each group whether no later row is earlier than a row up to here."""
    following = NO_LIMIT
    clean = [True] * len(survey.rows)
    for g in range(len(survey.rows) - 1, -1, -1):
        clean[g] = following >= later[g]
        following = min(following, survey.lows[g])
    return clean


def picked(times: Ints, run: Run) -> Ints:
    """Indices of the rows of `run` among the joined rows of its groups, in time order, ties as they stand."""
    inside = np.flatnonzero((times >= run.low) & (times < run.high))
    return inside[np.argsort(times[inside], kind="stable")]
