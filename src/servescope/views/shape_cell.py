"""`shape_cell` and `hit_cell`: latency by request shape, and by prompt length and cached share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.cells import Cells, Store, count, has_room
from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.tables import bin_columns, table
from servescope.views.sketch import Context, View, float64, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "completed_us", "input_tokens", "output_tokens", "cached_tokens", "ttft_s")
IT_STEP, OT_STEP = 2_000, 200  # tokens
LIMIT_S = 300.0
LIMIT_US = 300_000_000
METRICS = ("duration", "ttft")
TOGETHER = 64  # rows whose keys are made before they are looked up
# a key: input cell, output cell (24 bits), metric (1), bin (12); or input cell, tenth (4), bin (12)
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
def _fold(
    shapes: Store,
    hits: Store,
    row: int,
    arrival: npt.NDArray[np.int64],
    completed: npt.NDArray[np.int64],
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    ttft: npt.NDArray[np.float64],
) -> int:
    """Count rows from `row` on in the two maps (modified); the row reached when one is full."""
    shape_keys, hit_keys = np.empty(2 * TOGETHER + 1, np.uint64), np.empty(TOGETHER + 1, np.uint64)
    while row < len(arrival) and has_room(shapes, 2 * TOGETHER) and has_room(hits, TOGETHER):
        end = min(row + TOGETHER, len(arrival))
        shaped, hit = 0, 0
        for i in range(row, end):
            # no branch: each key is written, and overwritten by the next one where it does not count
            prompt = it[i] > 0
            wide = np.uint64(np.uint32(max(it[i], 0)) // np.uint32(IT_STEP))
            high = np.uint64(np.uint32(max(ot[i], 0)) // np.uint32(OT_STEP))
            cell = (wide << np.uint64(24) | high) << np.uint64(13)
            span = completed[i] - arrival[i]
            ended = (
                prompt & (ot[i] > 0) & (completed[i] != schema.NULL_INT64) & (span > 0) & (span < LIMIT_US)
            )
            shape_keys[shaped] = cell | np.uint64(log_bin((span if ended else 1) / 1e6))
            shaped += ended
            early = prompt & (ttft[i] > 0.0) & (ttft[i] < LIMIT_S)
            where = np.uint64(log_bin(ttft[i] if early else 1.0))
            shape_keys[shaped] = cell | np.uint64(1 << 12) | where
            shaped += early & (ot[i] > 0)
            # exact: a double holds the product, and two ratios of 32 bits are further apart than it rounds
            share = int(max(ct[i], 0) * 10.0 / max(it[i], 1))
            tenth = np.uint64(min(share, 10))
            hit_keys[hit] = wide << np.uint64(16) | tenth << np.uint64(12) | where
            hit += early & (ct[i] >= 0)
        for i in range(shaped):
            count(shapes, shape_keys[i], 1)
        for i in range(hit):
            count(hits, hit_keys[i], 1)
        row = end
    return row


@dataclass
class ShapeCell:
    """shapes, hits: counts by packed key, see above."""

    context: Context
    shapes: Cells = field(default_factory=Cells)
    hits: Cells = field(default_factory=Cells)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        arrays = (
            int64(batch, "arrival_us"), int64(batch, "completed_us"), int32(batch, "input_tokens"),
            int32(batch, "output_tokens"), int32(batch, "cached_tokens"), float64(batch, "ttft_s"),
        )  # fmt: skip
        row = 0
        while (row := _fold(self.shapes.store, self.hits.store, row, *arrays)) < batch.rows:
            if not has_room(self.shapes.store, 2 * TOGETHER):
                self.shapes.grow()
            if not has_room(self.hits.store, TOGETHER):
                self.hits.grow()

    def merge(self, later: ShapeCell) -> None:
        """Fold in the adjacent, later slice."""
        self.shapes.merge(later.shapes)
        self.hits.merge(later.hits)

    def tables(self) -> list[Table]:
        """`shape_cell` (unless it can have no rows) and `hit_cell`, by the columns from left to right."""
        return [self._hits()] if no_latency(self.context) else [self._shapes(), self._hits()]

    def _shapes(self) -> Table:
        keys, counts = self.shapes.sorted()
        keys = keys.astype(np.int64)
        columns = {
            "it_low": (pa.int64(), (keys >> 37) * IT_STEP),
            "ot_low": (pa.int64(), (keys >> 13 & 0xFFFFFF) * OT_STEP),
            "metric": (pa.string(), np.array(METRICS, object)[keys >> 12 & 1]),
            **bin_columns(keys & 0xFFF),
            "count": (pa.int64(), counts),
        }
        return table("shape_cell", columns, SHAPE_DOC)

    def _hits(self) -> Table:
        keys, counts = self.hits.sorted()
        keys = keys.astype(np.int64)
        columns = {
            "it_low": (pa.int64(), (keys >> 16) * IT_STEP),
            "hit_tenth": (pa.float64(), (keys >> 12 & 0xF) / 10),
            **bin_columns(keys & 0xFFF),
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
