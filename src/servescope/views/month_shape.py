"""`month_shape`: input and output lengths by month, as histograms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.histogram import LOG_BINS, count_wanted, filled
from servescope.kernels.jit import kernel
from servescope.tables import table
from servescope.views.clock import month_runs
from servescope.views.derived import token_bins
from servescope.views.sketch import TIMES, Context, View, held, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "input_tokens", "output_tokens")
METRICS = ("it", "ot")
DOC = (
    "Input (it) and output (ot) tokens of requests with both above 0, by month of the trace clock "
    "(January 1970 is 1), 100 log bins a decade."
)


@kernel
def _both(
    it: npt.NDArray[np.int16], ot: npt.NDArray[np.int16], has_it: bool, has_ot: bool
) -> npt.NDArray[np.bool_]:
    """Which rows count, given by their bins: bool[rows]."""
    both = np.empty(len(it), np.bool_)
    for i in range(len(it)):
        both[i] = ((not has_it) | (it[i] > 0)) & ((not has_ot) | (ot[i] > 0))
    return both


@dataclass
class MonthShape:
    """pages: month -> int64[2, LOG_BINS]."""

    context: Context
    pages: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        it, ot = token_bins(batch, "input_tokens"), token_bins(batch, "output_tokens")
        has = [self.context.has(name) for name in COLUMNS[1:]]
        wanted = _both(it, ot, *has)
        for month, low, high in month_runs(int64(batch, "arrival_us"), self.context.meta.origin.clock_us):
            page = self.pages.setdefault(month, np.zeros((2, LOG_BINS), np.int64))
            for counts, bins in zip(page, (it, ot), strict=True):
                count_wanted(counts, bins[low:high], wanted[low:high])

    def merge(self, later: MonthShape) -> None:
        """Fold in the adjacent, later slice."""
        for month, page in later.pages.items():
            if month in self.pages:
                self.pages[month] += page
            else:
                self.pages[month] = page

    def tables(self) -> list[Table]:
        """`month_shape`."""
        has = [self.context.has(name) for name in COLUMNS[1:]]
        rows: list[tuple[int, str, float, float, int]] = []
        for month, page in sorted(self.pages.items()):
            for metric, present, counts in zip(METRICS, has, page, strict=True):
                if present:
                    bins = filled(counts)
                    rows += [(month, metric, *row) for row in zip(*(b.tolist() for b in bins), strict=True)]
        names = ("month", "metric", "bin_low", "bin_high", "count")
        kinds = (pa.int64(), pa.string(), pa.float64(), pa.float64(), pa.int64())
        columns = {
            name: (kind, [row[at] for row in rows])
            for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
        }
        return [table("month_shape", columns, DOC)]


VIEW = View(
    "month_shape",
    COLUMNS,
    {"month_shape": (TIMES,)},
    MonthShape,
    filters=(
        "input_tokens",
        "output_tokens",
    ),
)
