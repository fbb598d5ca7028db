"""Gaps between a model's requests, along the whole trace and inside each clock hour: the kernels.

A batch is folded in several passes, each over little memory of a model: one after another, a row waits for
what the row before wrote of the same model, and for the bin of its gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import BINS_A_DECADE, LOG_BINS, log_bin
from servescope.kernels.jit import inlined, kernel
from servescope.kernels.moments import square_of
from servescope.kernels.run_coding import BIN_BITS
from servescope.views.clock import HOUR_US

if TYPE_CHECKING:
    from servescope.views.hour_cells import Cells

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]
Bins = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

US_PER_S = 1e6
FINE = 5  # log bins of 100 a decade in one of 20
WIDE_BINS = (LOG_BINS - 1) // FINE
# bins of the previous gap that share a key of the runs, and keys of a model
TOGETHER = LOG_BINS // WIDE_BINS
GROUPS = WIDE_BINS // TOGETHER
GAPS, SUM, SQUARES = range(3)  # of the open hour
HIGH, LOW = range(2)  # words of squares
assert BINS_A_DECADE == 20 * FINE


class Models(NamedTuple):
    """What is known of every model; gaps are above 0, in microseconds.

    first, last          int64[models], arrivals, -1 for none
    first_bin, last_bin  int16[models], bins of gaps, 20 a decade, -1 for none
    gaps, sums           int64[models], number and sum of final gaps, those outside the open hour
    squares              uint64[models, 2], sum of their squares: HIGH, LOW
    requests             uint32[models], of the open hour
    opened               uint64[models, 3], gaps inside the open hour: GAPS, SUM, SQUARES
    """

    first: Ints
    last: Ints
    first_bin: Bins
    last_bin: Bins
    gaps: Ints
    sums: Ints
    squares: Words
    requests: npt.NDArray[np.uint32]
    opened: Words


def new_models(models: int) -> Models:
    """Models without requests."""
    none, no_bin = np.full(models, -1, np.int64), np.full(models, -1, np.int16)
    nothing = np.zeros(models, np.int64)
    return Models(
        none, none.copy(), no_bin, no_bin.copy(), nothing, nothing.copy(), np.zeros((models, 2), np.uint64),
        np.zeros(models, np.uint32), np.zeros((models, 3), np.uint64),
    )  # fmt: skip


@inlined
def _add_squares(squares: Words, model: int, high: np.uint64, low: np.uint64) -> None:
    """Add a number of two words to those of a model: by two indices, as a view of a row is a counted one."""
    total = squares[model, LOW] + low
    squares[model, HIGH] += high + np.uint64(total < low)
    squares[model, LOW] = total


@inlined
def _final_gap(models: Models, model: int, gap: int) -> None:
    """Count a gap that lies in no hour."""
    models.gaps[model] += 1
    models.sums[model] += gap
    high, low = square_of(gap)
    _add_squares(models.squares, model, high, low)


@inlined
def wide_bin(gap_us: int) -> int:
    """Bin of a gap, 20 a decade; -1 for 0."""
    return (log_bin(gap_us / US_PER_S) + FINE - 1) // FINE - 1


@kernel
def gaps_of(models: Models, model: Codes, arrival: Ints, gaps: Ints) -> None:
    """Write the gap before each row to the one before of its model: 0 for none. Changes first and last."""
    first, last = models.first, models.last
    for i in range(len(model)):
        at = np.uint32(model[i])
        before = last[at]
        last[at] = arrival[i]
        if before < 0:
            first[at] = before = arrival[i]
        gaps[i] = arrival[i] - before


@kernel
def previous_of(models: Models, model: Codes, gaps: Ints, bins: Bins, previous: Bins) -> None:
    """Write the bin of each gap, -1 for none, and that of its model's gap before, -1 if either is none.

    Changes first_bin and last_bin.
    """
    first_bin, last_bin = models.first_bin, models.last_bin
    for i in range(len(gaps)):
        bins[i] = wide_bin(gaps[i])
    for i in range(len(gaps)):
        at = np.uint32(model[i])
        before, own = last_bin[at], bins[i]
        last_bin[at] = own if own >= 0 else before
        previous[i] = before if own >= 0 else np.int16(-1)
        if before < 0 and own >= 0:
            first_bin[at] = own


@kernel
def fold_hours(
    models: Models,
    cells: Cells,
    used: int,
    hour: int,
    clock_us: int,
    model: Codes,
    arrival: Ints,
    gaps: Ints,
    row: int,
) -> tuple[int, int, int]:
    """Fold in rows from `row` on until there is no room for cells: row reached, cells used, open hour.

    models  changed but for what other passes change
    cells   finished hours, the first `used`; modified
    hour    the open hour; -1 before the first row
    gaps    of `gaps_of`
    """
    requests, opened = models.requests, models.opened
    across = np.empty(len(model) + 1, np.int32)
    while row < len(model):
        if hour < 0 or arrival[row] >= (hour + 1) * HOUR_US - clock_us:
            if used + len(requests) > len(cells.hour):
                return row, used, hour
            used = finish(models, cells, used, hour)
            hour = (clock_us + arrival[row]) // HOUR_US
        begin = hour * HOUR_US - clock_us
        end = row + int(np.searchsorted(arrival[row:], begin + HOUR_US))
        out = np.uint64(0)
        for i in range(np.uint64(row), np.uint64(end)):
            at = np.uint32(model[i])
            inside = arrival[i] - gaps[i] >= begin
            gap = np.uint64(gaps[i] if inside else 0)
            requests[at] += np.uint32(1)
            opened[at, GAPS] += np.uint64(gap > 0)
            opened[at, SUM] += gap
            opened[at, SQUARES] += gap * gap
            across[out] = i  # no branch: overwritten by the next one
            out += np.uint64(not inside)
        for i in across[:out]:
            _final_gap(models, model[i], gaps[i])
        row = end
    return row, used, hour


@kernel
def finish(models: Models, cells: Cells, used: int, hour: int) -> int:
    """Move the open hour to cells (modified), which have room: cells used."""
    requests, opened = models.requests, models.opened
    for model in range(len(requests)):
        if requests[model] > 0:
            cells.hour[used] = hour
            cells.model[used] = model
            cells.requests[used] = requests[model]
            cells.gaps[used] = opened[model, GAPS]
            cells.sums[used] = opened[model, SUM]
            cells.squares[used] = opened[model, SQUARES]
            used += 1
            models.gaps[model] += np.int64(opened[model, GAPS])
            models.sums[model] += np.int64(opened[model, SUM])
            _add_squares(models.squares, model, np.uint64(0), opened[model, SQUARES])
            requests[model] = 0
            opened[model, GAPS] = opened[model, SUM] = opened[model, SQUARES] = 0
    return used


@kernel
def reopen(models: Models, cells: Cells) -> None:
    """Add finished cells of the open hour to it; what they hold is final no more."""
    for at in range(len(cells.hour)):
        model = cells.model[at]
        models.requests[model] += cells.requests[at]
        models.opened[model, GAPS] += cells.gaps[at]
        models.opened[model, SUM] += cells.sums[at]
        models.opened[model, SQUARES] += cells.squares[at]
        models.gaps[model] -= np.int64(cells.gaps[at])
        models.sums[model] -= np.int64(cells.sums[at])
        models.squares[model, HIGH] -= np.uint64(models.squares[model, LOW] < cells.squares[at])
        models.squares[model, LOW] -= cells.squares[at]


@kernel
def stitch(models: Models, later: Models, end: int, previous: Bins, bins: Bins) -> None:
    """Fold in the models of the adjacent, later slice but for its open hour.

    end             end of the open hour, on the clock of the arrivals
    previous, bins  int16[2 * models], -1 before; modified: two gaps in a row, see `previous_of`
    """
    for model in range(len(models.first)):
        first, last = later.first[model], models.last[model]
        if first < 0:
            continue
        if last < 0:
            models.first[model] = first
        elif first > last:
            if last >= end - HOUR_US and first < end:
                gap = np.uint64(first - last)
                models.opened[model, GAPS] += np.uint64(1)
                models.opened[model, SUM] += gap
                models.opened[model, SQUARES] += gap * gap
            else:
                _final_gap(models, model, first - last)
            _follow(models, model, wide_bin(first - last), 2 * model, previous, bins)
        if later.first_bin[model] >= 0:
            _follow(models, model, later.first_bin[model], 2 * model + 1, previous, bins)
            models.last_bin[model] = later.last_bin[model]
        models.last[model] = later.last[model]
        models.gaps[model] += later.gaps[model]
        models.sums[model] += later.sums[model]
        _add_squares(models.squares, model, later.squares[model, HIGH], later.squares[model, LOW])


@inlined
def _follow(models: Models, model: int, own: int, at: int, previous: Bins, bins: Bins) -> None:
    """Write down a bin after the last one of its model, and make it the last."""
    previous[at], bins[at] = models.last_bin[model], own
    if models.last_bin[model] < 0:
        models.first_bin[model] = own
    models.last_bin[model] = own


@kernel
def lines_of(
    squares: Codes,
    low: int,
    width: int,
    model: Codes,
    previous: Bins,
    lines: Codes,
    wanted: Flags,
    nowhere: int,
) -> None:
    """Write which rows have a gap before theirs, and their line: square of the model, then bin of that gap.

    squares     int32[models], square of a model, -1 for none
    low, width  first bin of a square, and number of its bins; nowhere: line of what no square holds
    lines       int32[rows], modified; wanted: bool[rows], modified
    """
    first, bins, out = np.int32(low), np.int32(width), np.int32(nowhere)
    for i in range(len(model)):
        square, before = squares[np.uint32(model[i])], np.int32(previous[i])
        held = (square >= 0) & (before >= first) & (before < first + bins)
        lines[i] = square * bins + before - first if held else out
        wanted[i] = before >= 0


@kernel
def pairs_of(rows: Ints, model: Codes, previous: Bins, bins: Bins) -> Words:
    """Two gaps in a row, of some rows, as `run_coding` sorts them: key and bin."""
    found = np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        row = rows[i]
        before = np.uint32(previous[row])
        group, rest = before // np.uint32(TOGETHER), before % np.uint32(TOGETHER)
        key = np.uint64(model[row]) * np.uint64(GROUPS) + np.uint64(group)
        found[i] = key << np.uint64(BIN_BITS) | np.uint64(rest * np.uint32(WIDE_BINS) + np.uint32(bins[row]))
    return found


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
