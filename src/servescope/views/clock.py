"""Hours, days and months on the trace clock, and runs of rows that share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

Ints = npt.NDArray[np.int64]


def month_of(clock_us: int) -> int:
    """Calendar month of a time on the trace clock; January 1970 is month 1.

    >>> month_of(31 * DAY_US)
    2
    """
    return int(np.datetime64(clock_us, "us").astype("datetime64[M]").astype(np.int64)) + 1


def months_of(clock: Ints) -> Ints:
    """Calendar months of times on the trace clock, int64[n]; see `month_of`."""
    return clock.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64) + 1


def month_start_us(month: int) -> int:
    """Time on the trace clock at which a month begins."""
    return int(np.datetime64(month - 1, "M").astype("datetime64[us]").astype(np.int64))


def day_runs(clock: Ints) -> Iterator[tuple[int, int, int]]:
    """Day, first row and row after the last of every run of rows with one day.

    clock  int64[n], times on the trace clock in order, microseconds
    """
    low = 0
    while low < len(clock):
        day = int(clock[low]) // DAY_US
        high = int(np.searchsorted(clock, (day + 1) * DAY_US))
        yield day, low, high
        low = high


def month_runs(times: Ints, zero_us: int = 0) -> Iterator[tuple[int, int, int]]:
    """Month, first row and row after the last of every run of rows with one month; see `day_runs`.

    zero_us  time 0 on the trace clock, where the times do not count from its own 0
    """
    low = 0
    while low < len(times):
        month = month_of(int(times[low]) + zero_us)
        high = int(np.searchsorted(times, month_start_us(month + 1) - zero_us))
        yield month, low, high
        low = high
