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
from servescope.kernels.pages import Pages
from servescope.kernels.run_counts import run_of
from servescope.kernels.run_pieces import pieces
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
    GROUPS,
    TOGETHER,
    WIDE_BINS,
    Bins,
    Codes,
    Ints,
    Models,
    finish,
    fold_hours,
    gaps_of,
    lines_of,
    new_models,
    pairs_of,
    previous_of,
    reopen,
    spreads,
    stitch,
    wide_bin,
)
from servescope.views.sketch import TIMES, Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "model")
STAGED_CELLS = 1 << 16
# the models with most gaps have a square of counts each: bins of the gap before by bins of the gap
SQUARES = 1 << 8
LEAST_SQUARE = 1 << 12  # gaps of a model that gets one
LOW_BIN, SQUARE_BINS = wide_bin(100), 20 * 8  # from 100 us up to 10^4 s
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


def _new_pages() -> Pages:
    lines = SQUARES * SQUARE_BINS
    return Pages(lines, LOW_BIN, SQUARE_BINS, most=lines + 1)


@dataclass
class ModelGaps:
    """models: see there; finished hours are in cells.

    previous  counts by model and bins of two gaps in a row: key model * GROUPS + previous // TOGETHER,
              bin previous % TOGETHER * WIDE_BINS + own
    squares   int32[models], square of a model, -1 for none
    often     such counts of these models: line square * SQUARE_BINS + previous - LOW_BIN
    hour      the open hour, -1 before the first row
    staged    cells not yet in `done`, the first `used`
    done      finished cells in order of time
    """

    context: Context
    models: Models = field(init=False)
    squares: Codes = field(init=False)
    staged: Cells = field(init=False)
    previous: Runs = field(default_factory=Runs)
    often: Pages = field(default_factory=_new_pages)
    hour: int = -1
    used: int = 0
    done: list[Coded] = field(default_factory=list)

    def __post_init__(self) -> None:
        models = len(self.context.texts["model"])
        self.models = new_models(models)
        self.squares = np.full(models, -1, np.int32)
        self.staged = new_cells(max(models, STAGED_CELLS))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        model, arrival = int32(batch, "model"), int64(batch, "arrival_us")
        if model.min() < 0:
            stated = model >= 0
            model, arrival = model[stated], arrival[stated]
        gaps = np.empty(len(model), np.int64)
        bins, previous = np.empty((2, len(model)), np.int16)
        gaps_of(self.models, model, arrival, gaps)
        row = 0
        while row < len(model):
            row, self.used, self.hour = fold_hours(
                self.models, self.staged, self.used, self.hour, self.context.meta.origin.clock_us,
                model, arrival, gaps, row,
            )  # fmt: skip
            if row < len(model):
                self._unstage()
        previous_of(self.models, model, gaps, bins, previous)
        self._count(model, previous, bins)

    def _count(self, model: Codes, previous: Bins, bins: Bins) -> None:
        """Count two gaps in a row by the bins of both."""
        if self.often.full(len(model)):
            self._empty_pages()
        lines, wanted = np.empty(len(model), np.int32), np.empty(len(model), np.bool_)
        nowhere = len(self.often.page_of) - 1
        lines_of(self.squares, LOW_BIN, SQUARE_BINS, model, previous, lines, wanted, nowhere)
        left = self.often.count(lines, bins, wanted)
        self.previous.put(pairs_of(left, model, previous, bins))
        given = int(self.squares.max(initial=-1)) + 1
        if given < SQUARES:
            more = np.flatnonzero((self.models.gaps >= LEAST_SQUARE) & (self.squares < 0))[: SQUARES - given]
            self.squares[more] = np.arange(given, given + len(more))

    def _empty_pages(self) -> None:
        """Move what is in squares to the runs."""
        line, bins, counts = self.often.entries()
        square, inside = np.divmod(line, SQUARE_BINS)
        model_of = np.zeros(SQUARES, np.int64)
        drawn = np.flatnonzero(self.squares >= 0)
        model_of[self.squares[drawn]] = drawn
        group, rest = np.divmod(inside + LOW_BIN, TOGETHER)
        self.previous.enter(run_of(model_of[square] * GROUPS + group, rest * WIDE_BINS + bins, counts))
        self.often = _new_pages()  # not cleared: the state may be written just now

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
        later._empty_pages()
        self._stitch(later)
        reopen(self.models, self._border(later))
        if later.hour > self.hour:
            if self.hour >= 0:
                self._unstage()
                self.used = finish(self.models, self.staged, 0, self.hour)
                self._unstage()
            self.done += later.done
            self.hour = later.hour
        self.models.requests[:] += later.models.requests
        self.models.opened[:] += later.models.opened

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
        models = len(self.squares)
        previous, bins = np.full((2, 2 * models), -1, np.int16)
        stitch(self.models, later.models, end, previous, bins)
        model = np.repeat(np.arange(models, dtype=np.int32), 2)
        self.previous.put(pairs_of(np.flatnonzero(previous >= 0), model, previous, bins))

    def tables(self) -> list[Table]:
        """`model_gap`, by model; `model_gap_pair`, by model and bins; `model_hour`, by hour and model."""
        models, rest = Models._make(column.copy() for column in self.models), new_cells(len(self.squares))
        count = finish(models, rest, 0, self.hour) if self.hour >= 0 else 0
        return [self._gaps(models), self._pairs(), self._hours(cut(rest, 0, count))]

    def _gaps(self, models: Models) -> Table:
        seen = np.flatnonzero(models.first >= 0)
        means: list[float | None] = []
        spreads: list[float | None] = []
        gaps, sums, squares = (column[seen] for column in (models.gaps, models.sums, models.squares))
        for n, total, words in zip(gaps.tolist(), sums.tolist(), squares, strict=True):
            means.append(total / (n * 10**6) if n else None)
            spreads.append((n * as_int(words) - total * total) / (n * 10**12) if n else None)
        columns = {
            "model": category(seen, self.context.strings("model")),
            "n_gaps": (pa.int64(), gaps),
            "gap_mean": (pa.float64(), means),
            "gap_M2": (pa.float64(), spreads),
        }
        return table("model_gap", columns, GAP_DOC)

    def _pairs(self) -> Table:
        self._empty_pages()
        models = self.context.strings("model")
        rows = [_pair_rows(models, *piece) for piece in pieces(self.previous.compact(), WINDOW_CELLS)]
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
