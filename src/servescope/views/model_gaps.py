"""`model_gap`, `model_gap_pair`, `model_hour`: how evenly the requests to a model arrive."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.histogram import EDGES
from servescope.kernels.moments import as_int
from servescope.kernels.runs import Runs
from servescope.result import Table
from servescope.tables import category, table
from servescope.views.clock import HOUR_US
from servescope.views.gap_rows import (
    DEVIATIONS,
    MEAN,
    NEXT_HIGH,
    NEXT_LOW,
    PREVIOUS_HIGH,
    PREVIOUS_LOW,
    VARIATION,
    hour_rows,
    pair_rows,
)  # fmt: skip
from servescope.views.hour_cells import Cells, Coded, coded, cut, decoded, new_cells, windows
from servescope.views.model_gap_fold import (
    FACTS,
    FIRST,
    FIRST_BIN,
    GAPS,
    HIGH,
    HOUR_REQUESTS,
    HOUR_SQUARES,
    HOUR_SUM,
    LAST,
    LAST_BIN,
    LOW,
    SQUARES,
    SUM,
    Ints,
    Words,
    finish,
    fold,
    reopen,
    spreads,
    stitch,
)  # fmt: skip
from servescope.views.sketch import TIMES, Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "model")
STAGED_CELLS = 1 << 16
HOURS = slice(HOUR_REQUESTS, HOUR_SUM + 1)
WINDOW_CELLS = 1 << 20
LEAST_GAPS = 5  # of an hour, for a coefficient of variation
GAP_DOC = (
    "Gaps above 0 between consecutive requests of every model: their number, mean (s) and sum of squared "
    "deviations from it (s^2)."
)
PAIR_DOC = (
    "Gaps above 0 of a model (bin_low, bin_high, seconds) by the gap above 0 before them "
    "(previous_bin_low, previous_bin_high), 20 log bins a decade."
)
HOUR_DOC = (
    "Requests of every model and hour of the trace clock, and the gaps above 0 between them: both requests "
    "lie in the hour. gap_mean in s, gap_M2 (sum of squared deviations) in s^2, CV is the sample standard "
    "deviation over the mean, null below 5 gaps."
)


@dataclass
class ModelGaps:
    """facts, squares, opened: see `model_gap_fold.fold`; the open hour is in them, finished ones in cells.

    previous  counts by model and bins of two gaps
    hour      the open hour, -1 before the first row
    staged    cells not yet in `done`, the first `used`
    done      finished cells in order of time
    """

    context: Context
    facts: Ints = field(init=False)
    squares: Words = field(init=False)
    opened: npt.NDArray[np.uint8] = field(init=False)
    staged: Cells = field(init=False)
    previous: Runs = field(default_factory=Runs)
    hour: int = -1
    used: int = 0
    done: list[Coded] = field(default_factory=list)

    def __post_init__(self) -> None:
        models = len(self.context.texts["model"])
        self.facts = np.zeros((models, FACTS), np.int64)
        self.facts[:, [LAST, LAST_BIN, FIRST, FIRST_BIN]] = -1
        self.opened = np.zeros(models, np.uint8)
        self.squares = np.zeros((models, SQUARES), np.uint64)
        self.staged = new_cells(max(models, STAGED_CELLS))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        model, arrival = int32(batch, "model"), int64(batch, "arrival_us")
        keys, bins = np.full(batch.rows, -1, np.int32), np.empty(batch.rows, np.int64)
        row = 0
        while row < batch.rows:
            row, self.used, self.hour = fold(
                self.facts, self.squares, self.opened, self.staged, self.used, self.hour,
                self.context.meta.origin.clock_us, model, arrival, keys, bins, row,
            )  # fmt: skip
            if row < batch.rows:
                self._unstage()
        self.previous.add(keys, bins)

    def _unstage(self) -> None:
        """Move staged cells to `done`."""
        if self.used:
            self.done.append(coded(self.staged, self.used))
        self.used = 0

    def merge(self, later: ModelGaps) -> None:
        """Fold in the adjacent, later slice, whose cells are taken over."""
        if later.hour < 0:
            return
        later._unstage()
        self._stitch(later)
        border = self._border(later)
        reopen(self.facts, self.squares, self.opened, border)
        if later.hour > self.hour:
            if self.hour >= 0:
                self._unstage()
                self.used = finish(self.facts, self.squares, self.opened, self.staged, 0, self.hour)
                self._unstage()
            self.done += later.done
            self.hour = later.hour
        self.facts[:, HOURS] += later.facts[:, HOURS]
        self.squares[:, HOUR_SQUARES] += later.squares[:, HOUR_SQUARES]
        self.opened |= later.opened

    def _border(self, later: ModelGaps) -> Cells:
        """Take the finished cells of our open hour out of the later slice."""
        if not later.done or later.done[0].first_hour > self.hour:
            return new_cells(0)
        cells = decoded(later.done.pop(0))
        end = int(np.searchsorted(cells.hour, self.hour, side="right"))
        rest = cut(cells, end, len(cells.hour))
        if len(rest.hour):
            later.done.insert(0, coded(rest, len(rest.hour)))
        return cut(cells, 0, end)

    def _stitch(self, later: ModelGaps) -> None:
        self.previous.merge(later.previous)
        end = (self.hour + 1) * HOUR_US - self.context.meta.origin.clock_us
        models = len(self.facts)
        keys, bins = np.full(2 * models, -1, np.int32), np.empty(2 * models, np.int64)
        stitch(self.facts, self.squares, later.facts, later.squares, end, keys, bins)
        self.previous.add(keys, bins)

    def tables(self) -> list[Table]:
        """`model_gap`, by model; `model_gap_pair`, by model and bins; `model_hour`, by hour and model."""
        facts, squares, rest = self.facts.copy(), self.squares.copy(), new_cells(len(self.facts))
        count = 0
        if self.hour >= 0:
            count = finish(facts, squares, self.opened.copy(), rest, 0, self.hour)
        return [self._gaps(facts, squares), self._pairs(), self._hours(cut(rest, 0, count))]

    def _gaps(self, facts: Ints, squares: Words) -> Table:
        models = np.flatnonzero(facts[:, FIRST] >= 0)
        means: list[float | None] = []
        spreads: list[float | None] = []
        for n, total, words in zip(
            facts[models, GAPS].tolist(),
            facts[models, SUM].tolist(),
            squares[models][:, [HIGH, LOW]],
            strict=True,
        ):
            means.append(total / (n * 10**6) if n else None)
            spreads.append((n * as_int(words) - total * total) / (n * 10**12) if n else None)
        columns = {
            "model": category(models, self.context.strings("model")),
            "n_gaps": (pa.int64(), facts[models, GAPS]),
            "gap_mean": (pa.float64(), means),
            "gap_M2": (pa.float64(), spreads),
        }
        return table("model_gap", columns, GAP_DOC)

    def _pairs(self) -> Table:
        models, entries = self.context.strings("model"), self.previous.entries()
        # a year has tens of millions of rows
        rows = [
            _pair_rows(models, *(column[low : low + WINDOW_CELLS] for column in entries))
            for low in range(0, max(len(entries[0]), 1), WINDOW_CELLS)
        ]
        return Table("model_gap_pair", pa.concat_tables(rows), PAIR_DOC)

    def _hours(self, rest: Cells) -> Table:
        parts = chain(map(decoded, self.done), [cut(self.staged, 0, self.used), rest])
        models = self.context.strings("model")
        rows = [_hour_rows(models, cells) for cells in windows(parts, WINDOW_CELLS)]
        return Table("model_hour", pa.concat_tables(rows), HOUR_DOC)


def _pair_rows(texts: pa.Array, keys: Ints, bins: Ints, counts: Ints) -> pa.Table:
    models = np.empty(len(keys), np.int32)
    places = tuple(np.empty((4, len(keys))))
    pair_rows(keys, bins, EDGES, models, places)
    columns = {
        "model": category(models, texts),
        "previous_bin_low": (pa.float64(), places[PREVIOUS_LOW]),
        "previous_bin_high": (pa.float64(), places[PREVIOUS_HIGH]),
        "bin_low": (pa.float64(), places[NEXT_LOW]),
        "bin_high": (pa.float64(), places[NEXT_HIGH]),
        "count": (pa.int64(), counts.copy()),
    }
    return table("model_gap_pair", columns, PAIR_DOC).data


def _hour_rows(texts: pa.Array, cells: Cells) -> pa.Table:
    some, enough = cells.gaps > 0, cells.gaps >= LEAST_GAPS
    found = tuple(np.empty((3, len(cells.hour))))
    hour_rows(cells.gaps, cells.sums, spreads(cells.gaps, cells.sums, cells.squares), found)
    columns = {
        "model": category(cells.model, texts),
        "hour": (pa.int32(), cells.hour),
        "n_requests": (pa.int32(), cells.requests.view(np.int32)),
        "n_gaps": (pa.int32(), cells.gaps.view(np.int32)),
        "gap_mean": _known(found[MEAN], some),
        "gap_M2": _known(found[DEVIATIONS], some),
        "CV": _known(found[VARIATION], enough),
    }
    return table("model_hour", columns, HOUR_DOC).data


def _known(values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> tuple[pa.DataType, pa.Array]:
    return pa.float64(), pa.array(values, mask=~known)


VIEW = View(
    "model_gaps",
    COLUMNS,
    {
        "model_gap": ("model", TIMES),
        "model_gap_pair": ("model", TIMES),
        "model_hour": ("model", TIMES),
    },
    ModelGaps,
    slow=True,
)
