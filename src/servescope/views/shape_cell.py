"""`shape_cell` and `hit_cell`: latency by request shape, and by prompt length and cached share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.cells import Cells
from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.kernels.pages import Pages
from servescope.tables import bin_columns, table
from servescope.views import derived
from servescope.views.sketch import Context, View, float64, held, int32

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

Ints = npt.NDArray[np.int64]
COLUMNS = ("arrival_us", "completed_us", "input_tokens", "output_tokens", "cached_tokens", "ttft_s")
IT_STEP, OT_STEP = 2_000, 200  # tokens
LIMIT_S = 300.0
METRICS = ("duration", "ttft")
DURATION, TTFT, HIT = range(3)  # parts
# a key: input cell, output cell or tenth of hits, bin
OT_BITS, TENTH_BITS, BIN_BITS = 24, 4, 12
# a line of pages: the same without a bin and with fewer bits, for all but the longest requests
WIDE_BITS, HIGH_BITS = 7, 7
SHAPE_LINES, HIT_LINES = 1 << WIDE_BITS + HIGH_BITS, 1 << WIDE_BITS + TENTH_BITS
LINES = (SHAPE_LINES, SHAPE_LINES, HIT_LINES)
LOW_BIN = log_bin(1e-5)  # of a page, seconds; few requests take less
BINS = log_bin(LIMIT_S) - LOW_BIN + 1
SHAPE_DOC = (
    "Requests with input and output above 0 by shape: it_low and ot_low are the lower edges in tokens of "
    "cells 2,000 wide in input and 200 in output. metric duration: completed, 0 < duration < 300 s; ttft: "
    "0 < ttft < 300 s, completed or not. Seconds in 100 log bins a decade."
)
HIT_DOC = (
    "Requests with 0 < ttft < 300 s, input above 0 and cached tokens of at least 0: ttft in seconds, 100 log "
    "bins a decade, by input (it_low: lower edge of cells 2,000 tokens wide) and hit_tenth, cached / input "
    "rounded down to tenths (1.0: all of it)."
)


@kernel
def _lines(
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    hits: npt.NDArray[np.int16],
    shapes: npt.NDArray[np.int32],
    shares: npt.NDArray[np.int32],
) -> None:
    """Write the line of each row in the pages of shapes and of hits; hits: see `derived.hit_bins`."""
    for i in range(len(it)):
        wide = np.uint32(max(it[i], 0)) // np.uint32(IT_STEP)
        high = np.uint32(max(ot[i], 0)) // np.uint32(OT_STEP)
        near = wide < np.uint32(1 << WIDE_BITS)
        inside = near & (high < np.uint32(1 << HIGH_BITS))
        shapes[i] = wide << np.uint32(HIGH_BITS) | high if inside else np.uint32(SHAPE_LINES)
        # a bin of hits is a thousandth, from 1 on
        tenth = np.uint32(np.int32(hits[i]) - 1 if hits[i] > 0 else 0) // np.uint32(100)
        shares[i] = wide << np.uint32(TENTH_BITS) | tenth if near else np.uint32(HIT_LINES)


@kernel
def _wanted(
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    duration: npt.NDArray[np.float64],
    ttft: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.bool_],
) -> None:
    """Write to wanted, bool[3, rows], whether a row counts in each part of `ShapeCell`."""
    for i in range(len(it)):
        early = (it[i] > 0) & (ttft[i] > 0.0) & (ttft[i] < LIMIT_S)
        wanted[DURATION, i] = (it[i] > 0) & (ot[i] > 0) & (duration[i] > 0.0) & (duration[i] < LIMIT_S)
        wanted[TTFT, i] = early & (ot[i] > 0)
        wanted[HIT, i] = early & (ct[i] >= 0)


def _keys(part: int, wide: Ints, low: Ints, bins: Ints) -> npt.NDArray[np.uint64]:
    """Keys of input cells, output cells or tenths of hits, and bins, see above."""
    bits = TENTH_BITS if part == HIT else OT_BITS
    return ((wide << bits | low) << BIN_BITS | bins).astype(np.uint64)


@dataclass
class ShapeCell:
    """Three parts: durations and times to first token by shape, and the latter by hit.

    pages  most counts of each part
    rest   counts that no page keeps, by key
    """

    context: Context
    pages: list[Pages] = field(default_factory=lambda: [Pages(lines, LOW_BIN, BINS) for lines in LINES])
    rest: list[Cells] = field(default_factory=lambda: [Cells() for _ in LINES])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        it, ot, ct = (int32(batch, name) for name in COLUMNS[2:5])
        hits = derived.hit_bins(batch)
        lines, wanted = np.empty((2, batch.rows), np.int32), np.empty((len(LINES), batch.rows), np.bool_)
        _lines(it, ot, hits, *lines)
        _wanted(it, ot, ct, derived.durations(batch), float64(batch, "ttft_s"), wanted)
        bins = derived.latency_bins(batch)
        ttft, duration = bins[derived.TTFT], bins[derived.DURATION]
        kinds = ((lines[0], duration), (lines[0], ttft), (lines[1], ttft))
        for part, (line, own) in enumerate(kinds):
            if not wanted[part].any():
                continue
            if self.pages[part].full(batch.rows):
                self._add(part, self.pages[part])
                self.pages[part].clear()
            left = self.pages[part].count(line, own, wanted[part])
            if len(left):
                low = np.maximum(hits[left] - 1, 0) // 100 if part == HIT else ot[left] // OT_STEP
                wide = it[left] // IT_STEP
                self.rest[part].add(_keys(part, wide.astype(np.int64), low.astype(np.int64), own[left]))

    def _add(self, part: int, pages: Pages) -> None:
        """Count what pages hold among the rest."""
        line, bins, counts = pages.entries()
        bits = TENTH_BITS if part == HIT else HIGH_BITS
        self.rest[part].add(_keys(part, line >> bits, line & (1 << bits) - 1, bins), counts)

    def merge(self, later: ShapeCell) -> None:
        """Fold in the adjacent, later slice."""
        for part, (pages, rest) in enumerate(zip(later.pages, later.rest, strict=True)):
            self.rest[part].merge(rest)
            self._add(part, pages)

    def tables(self) -> list[Table]:
        """`shape_cell` (unless it can have no rows) and `hit_cell`, by the columns from left to right."""
        whole = ShapeCell(self.context)
        whole.merge(self)
        parts = [(keys.astype(np.int64), counts) for keys, counts in (rest.sorted() for rest in whole.rest)]
        return [_hits(*parts[HIT])] if no_latency(self.context) else [_shapes(parts), _hits(*parts[HIT])]


def _shapes(parts: list[tuple[Ints, Ints]]) -> Table:
    both = parts[DURATION], parts[TTFT]
    keys, counts = (np.concatenate(columns) for columns in zip(*both, strict=True))
    metric = np.repeat([DURATION, TTFT], [len(counts) for _, counts in both])
    order = np.lexsort((keys, metric, keys >> BIN_BITS))
    keys, counts, metric = keys[order], counts[order], metric[order]
    columns = {
        "it_low": (pa.int64(), (keys >> OT_BITS + BIN_BITS) * IT_STEP),
        "ot_low": (pa.int64(), (keys >> BIN_BITS & (1 << OT_BITS) - 1) * OT_STEP),
        "metric": (pa.string(), np.array(METRICS, object)[metric]),
        **bin_columns(keys & (1 << BIN_BITS) - 1),
        "count": (pa.int64(), counts),
    }
    return table("shape_cell", columns, SHAPE_DOC)


def _hits(keys: Ints, counts: Ints) -> Table:
    columns = {
        "it_low": (pa.int64(), (keys >> TENTH_BITS + BIN_BITS) * IT_STEP),
        "hit_tenth": (pa.float64(), (keys >> BIN_BITS & (1 << TENTH_BITS) - 1) / 10),
        **bin_columns(keys & (1 << BIN_BITS) - 1),
        "count": (pa.int64(), counts),
    }
    return table("hit_cell", columns, HIT_DOC)


def no_latency(context: Context) -> list[str]:
    """That there is no table without a latency, where the source has none."""
    if context.has("completed_us") or context.has("ttft_s") or not context.has("output_tokens"):
        return []
    return ["table shape_cell is left out: the source has no completed_us and no ttft_s"]


VIEW = View(
    "shape_cell",
    COLUMNS,
    {
        "shape_cell": ("input_tokens", "output_tokens"),
        "hit_cell": ("input_tokens", "cached_tokens", "ttft_s"),
    },
    ShapeCell,
    notes=no_latency,
)
