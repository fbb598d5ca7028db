"""The rows that the balance views are made of: chosen models inside a window, as one table of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.views import derived

if TYPE_CHECKING:
    from collections.abc import Callable

Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
# columns of the rows: start on the trace clock, place of the model among the chosen ones, codes, tokens,
# and log bins of time to first token and of decode time
CLOCK, PLACE, INSTANCE, USER, IT, OT, CT, TTFT, DECODE = range(9)
WIDTH = 9
UNKNOWN = -1  # bin of an unknown latency
BELOW = 4_095  # bin of a time to first token below 0


@kernel
def pick(
    places: npt.NDArray[np.int64],
    first_us: int,
    end_us: int,
    clock_us: int,
    arrival: npt.NDArray[np.int64],
    model: Codes,
    codes: tuple[Codes, ...],
    ttft: npt.NDArray[np.float64],
    duration: npt.NDArray[np.float64],
    bins: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of the chosen models with first_us <= arrival < end_us: their numbers, int64[n], and Rows.

    places  int64[models + 1], place of a model code among the chosen ones, -1 for the others and null
    codes   instance, user, and input, output and cached tokens, int32[rows] each
    bins    see `derived.latency_bins`
    """
    low, high = np.searchsorted(arrival, first_us), np.searchsorted(arrival, end_us)
    numbers, found = np.empty(high - low + 1, np.int64), 0
    for i in range(low, high):
        numbers[found] = i  # no branch: overwritten by the next one
        found += places[model[i]] >= 0
    rows = np.empty((found, WIDTH), np.int64)
    for at in range(found):
        row, i = rows[at], numbers[at]
        row[CLOCK] = clock_us + arrival[i]
        row[PLACE] = places[model[i]]
        row[INSTANCE], row[USER] = codes[0][i], codes[1][i]
        row[IT], row[OT], row[CT] = codes[2][i], codes[3][i], codes[4][i]
        known = ttft[i] == ttft[i]  # not NaN
        row[TTFT] = (bins[derived.TTFT, i] if ttft[i] >= 0.0 else BELOW) if known else UNKNOWN
        row[DECODE] = bins[derived.DECODE, i] if known & (duration[i] == duration[i]) else UNKNOWN
    return numbers[:found].copy(), rows


class Open:
    """Rows of the first and the last hour of a run, whose other rows a neighbouring run may hold.

    head  rows of the first hour, None as long as there is only one hour, which is then in `tail`
    tail  rows of the last hour

    `feed` hands rows of whole hours in between to `close`.
    """

    def __init__(self, period_us: int) -> None:
        self.period_us = period_us
        self.head: Rows | None = None
        self.tail: Rows = np.zeros((0, WIDTH), np.int64)

    def feed(self, rows: Rows, close: Callable[[Rows], None]) -> None:
        """Go on with the next rows in time order."""
        if not len(rows):
            return
        rows = np.concatenate([self.tail, rows]) if len(self.tail) else rows
        clock = rows[:, CLOCK].copy()
        if self.head is None:
            cut = int(np.searchsorted(clock, (clock[0] // self.period_us + 1) * self.period_us))
            if cut == len(rows):
                self.tail = rows
                return
            self.head = rows[:cut].copy()
            rows, clock = rows[cut:], clock[cut:]
        cut = int(np.searchsorted(clock, clock[-1] // self.period_us * self.period_us))
        if cut:
            close(rows[:cut])
        self.tail = rows[cut:].copy()

    def follow(self, later: Open, close: Callable[[Rows], None], between: Callable[[], None]) -> None:
        """Go on with a later run.

        between  called where the hours that the later run closed itself belong
        """
        if later.head is None:
            self.feed(later.tail, close)
            return
        self.feed(later.head, close)
        if self.head is None:
            self.head = self.tail
        else:
            close(self.tail)
        between()
        self.tail = later.tail
