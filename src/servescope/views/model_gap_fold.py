"""Gaps between a model's requests, along the whole trace and inside each clock hour: the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import BINS_A_DECADE, LOG_BINS, log_bin
from servescope.kernels.jit import inlined, kernel
from servescope.views.clock import HOUR_US

if TYPE_CHECKING:
    from servescope.views.hour_cells import Cells

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

US_PER_S = 1e6
FINE = 5  # log bins of 100 a decade in one of 20
WIDE_BINS = (LOG_BINS - 1) // FINE
TOGETHER = LOG_BINS // WIDE_BINS  # bins of the previous gap that share a key of the counts
GROUPS = WIDE_BINS // TOGETHER  # keys of a model
# of `facts`: first what every row changes, then what is final; -1: none, in the first two of each
LAST, LAST_BIN, HOUR_REQUESTS, HOUR_GAPS, HOUR_SUM = range(5)
FIRST, FIRST_BIN, GAPS, SUM = range(5, 9)  # gaps of the open hour are not in the last two, but in those above
FACTS = 9
HOUR_SQUARES, HIGH, LOW = range(3)  # of `squares`
SQUARES = 3
assert BINS_A_DECADE == 20 * FINE
WIDE = ((np.arange(LOG_BINS) - 1) // FINE).astype(np.int16)  # bin of 20 a decade of a log bin


@inlined
def _add_squares(squares: Words, model: int, high: np.uint64, low: np.uint64) -> None:
    """Add a number of two words to those of a model."""
    total = squares[model, LOW] + low
    squares[model, HIGH] += high + np.uint64(total < low)
    squares[model, LOW] = total


@inlined
def _final_gap(facts: Ints, squares: Words, model: int, gap: int) -> None:
    """Count a gap that lies in no hour."""
    facts[model, GAPS] += 1
    facts[model, SUM] += gap
    a, b = np.uint64(gap) >> np.uint64(32), np.uint64(gap) & np.uint64(0xFFFFFFFF)
    cross = a * b  # counts twice, at 2^32
    high, low = a * a + (cross >> np.uint64(31)), (cross & np.uint64(0x7FFFFFFF)) << np.uint64(33)
    _add_squares(squares, model, high, low)
    _add_squares(squares, model, np.uint64(0), b * b)


@inlined
def _note(keys: npt.NDArray[np.int32], bins: Ints, at: int, model: int, previous: int, place: int) -> None:
    """Write down a gap of bin `place` after one of bin `previous` (20 a decade; below 0: none)."""
    if previous >= 0:
        group = np.uint64(previous) // np.uint64(TOGETHER)
        keys[at] = model * GROUPS + np.int64(group)
        bins[at] = (previous - np.int64(group) * TOGETHER) * WIDE_BINS + place


@inlined
def _gap(facts: Ints, squares: Words, model: int, gap: int, in_hour: bool) -> int:
    """Count a gap above 0 that follows all those of its model so far: bin of the one before, or -1."""
    if in_hour:
        facts[model, HOUR_GAPS] += 1
        facts[model, HOUR_SUM] += gap
        squares[model, HOUR_SQUARES] += np.uint64(gap) * np.uint64(gap)
    else:
        _final_gap(facts, squares, model, gap)
    previous = facts[model, LAST_BIN]
    facts[model, LAST_BIN] = WIDE[log_bin(gap / US_PER_S)]
    if previous < 0:
        facts[model, FIRST_BIN] = facts[model, LAST_BIN]
    return int(previous)


@kernel
def fold(
    facts: Ints,
    squares: Words,
    opened: npt.NDArray[np.uint8],
    cells: Cells,
    used: int,
    hour: int,
    clock_us: int,
    model: npt.NDArray[np.int32],
    arrival: Ints,
    keys: npt.NDArray[np.int32],
    bins: Ints,
    row: int,
) -> tuple[int, int, int]:
    """Fold in rows from `row` on until there is no room for cells: row reached, cells used, open hour.

    facts    int64[models, FACTS], modified: arrivals and gaps in microseconds
    squares  uint64[models, SQUARES], modified
    opened   uint8[models], 1 where the open hour has requests; modified
    cells    finished hours, the first `used`; modified
    hour     the open hour, whose cells are in facts and squares; -1 before the first row
    keys     int32[rows], -1 before; modified: where a row ends a gap that has one before it,
    bins     int64[rows]: what to count, see `_note`
    """
    end = (hour + 1) * HOUR_US - clock_us  # of the open hour
    while row < len(model):
        start = arrival[row]
        if start >= end or hour < 0:
            if used + len(facts) > len(cells.hour):
                return row, used, hour
            used = finish(facts, squares, opened, cells, used, hour)
            hour = (clock_us + start) // HOUR_US
            end = (hour + 1) * HOUR_US - clock_us
        at = int(model[row])
        if at >= 0:
            last = facts[at, LAST]
            if last < 0:
                facts[at, FIRST] = start
            elif start > last:
                previous = _gap(facts, squares, at, start - last, last >= end - HOUR_US)
                _note(keys, bins, row, at, previous, facts[at, LAST_BIN])
            facts[at, LAST] = start
            facts[at, HOUR_REQUESTS] += 1
            opened[at] = 1
        row += 1
    return row, used, hour


@kernel
def finish(
    facts: Ints, squares: Words, opened: npt.NDArray[np.uint8], cells: Cells, used: int, hour: int
) -> int:
    """Move the open hour to cells (modified), which have room: cells used."""
    for model in range(len(facts)):
        if opened[model]:
            cells.hour[used] = hour
            cells.model[used] = model
            cells.requests[used] = facts[model, HOUR_REQUESTS]
            cells.gaps[used] = facts[model, HOUR_GAPS]
            cells.sums[used] = facts[model, HOUR_SUM]
            cells.squares[used] = squares[model, HOUR_SQUARES]
            used += 1
            facts[model, GAPS] += facts[model, HOUR_GAPS]
            facts[model, SUM] += facts[model, HOUR_SUM]
            _add_squares(squares, model, np.uint64(0), squares[model, HOUR_SQUARES])
            facts[model, HOUR_REQUESTS : HOUR_SUM + 1] = 0
            squares[model, HOUR_SQUARES] = 0
            opened[model] = 0
    return used


@kernel
def reopen(facts: Ints, squares: Words, opened: npt.NDArray[np.uint8], cells: Cells) -> None:
    """Add finished cells of the open hour to it; what they hold is final no more."""
    for at in range(len(cells.hour)):
        model = cells.model[at]
        opened[model] = 1
        facts[model, HOUR_REQUESTS] += cells.requests[at]
        facts[model, HOUR_GAPS] += cells.gaps[at]
        facts[model, HOUR_SUM] += cells.sums[at]
        squares[model, HOUR_SQUARES] += cells.squares[at]
        facts[model, GAPS] -= cells.gaps[at]
        facts[model, SUM] -= cells.sums[at]
        squares[model, HIGH] -= np.uint64(squares[model, LOW] < cells.squares[at])
        squares[model, LOW] -= cells.squares[at]


@kernel
def stitch(
    facts: Ints,
    squares: Words,
    later: Ints,
    later_squares: Words,
    end: int,
    keys: npt.NDArray[np.int32],
    bins: Ints,
) -> None:
    """Fold in the models of the adjacent, later slice but for its hours.

    later, later_squares  facts and squares of the later slice
    end                   end of the open hour, on the clock of the arrivals
    keys, bins            as in `fold`, two places a model
    """
    for model in range(len(facts)):
        first = later[model, FIRST]
        if first < 0:
            continue
        last = facts[model, LAST]
        if last < 0:
            facts[model, FIRST] = first
        elif first > last:
            in_hour = last >= end - HOUR_US and first < end
            previous = _gap(facts, squares, model, first - last, in_hour)
            _note(keys, bins, 2 * model, model, previous, facts[model, LAST_BIN])
        if later[model, FIRST_BIN] >= 0:
            _note(keys, bins, 2 * model + 1, model, facts[model, LAST_BIN], later[model, FIRST_BIN])
            if facts[model, LAST_BIN] < 0:
                facts[model, FIRST_BIN] = later[model, FIRST_BIN]
            facts[model, LAST_BIN] = later[model, LAST_BIN]
        facts[model, LAST] = later[model, LAST]
        facts[model, GAPS] += later[model, GAPS]
        facts[model, SUM] += later[model, SUM]
        _add_squares(squares, model, later_squares[model, HIGH], later_squares[model, LOW])


@kernel
def spreads(
    n: npt.NDArray[np.uint32], sums: npt.NDArray[np.uint32], squares: Words
) -> npt.NDArray[np.float64]:
    """n * squares - sums^2, exact in 128 bits and then rounded: float64[n]."""
    found = np.empty(len(n))
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    for i in range(len(n)):
        count, total = np.uint64(n[i]), np.uint64(sums[i])
        low = count * (squares[i] & low_half)
        high = count * (squares[i] >> half) + (low >> half)  # at 2^32: no overflow, count is below 2^32
        low = ((high & low_half) << half) | (low & low_half)
        high >>= half
        if low < total * total:
            high -= np.uint64(1)
        found[i] = float(high) * 2.0**64 + float(low - total * total)
    return found
