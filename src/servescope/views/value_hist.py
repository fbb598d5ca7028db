"""`value_hist`: distributions of lengths, latencies and hit ratios, for all and for some models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.histogram import LOG_BINS, RATIO_BINS, add_bins, log_bin, ratio_bin
from servescope.kernels.jit import kernel
from servescope.tables import histogram_table
from servescope.views import derived
from servescope.views.sketch import Context, View, float64, held, int32

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = (
    "arrival_us",
    "model",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "ttft_s",
    "completed_us",
)
# metric -> the columns without which it has no value, in the order of the arrays
LOG_METRICS = {
    "it": ("input_tokens",),
    "ot": ("output_tokens",),
    "ratio": ("input_tokens", "output_tokens"),
    "e2e": ("completed_us",),
    "ttft": ("ttft_s",),
    "decode": ("completed_us", "ttft_s"),
}
Flags = npt.NDArray[np.bool_]
Lines = npt.NDArray[np.int32]
Line = tuple[tuple[str, str], npt.NDArray[np.int64]]  # metric and series, counts
IT, OT, RATIO, E2E, TTFT, DECODE = range(6)
BELOW_OT, BELOW_CT = range(2)  # of negative
OTHERS = 0  # series of the models that are not highlighted, of no model too
SHORT, BETWEEN, LONG = range(3)  # inputs
SHORT_TOKENS, LONG_TOKENS = 1_000, 8_000
LIMIT_S = 300.0  # prefill_frac is taken of shorter requests
DOC = (
    "Histograms by metric and series (global, each highlighted model; for hit also inputs below 1,000 "
    "and from 8,000 tokens). it, ot: input above 0, completed. ratio: output / input, output above 0. "
    "e2e, ttft, decode: 0 < ttft <= duration, seconds. prefill_frac: ttft / duration below 300 s. hit: "
    "cached / input in [0, 1]; hit_pos: only cached >= 0. Columns that the source lacks filter nothing. "
    "A negative output is counted in a bin from minus infinity to 0."
)


@kernel
def _lengths(
    has: npt.NDArray[np.bool_],
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    duration: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.bool_],
    ratios: npt.NDArray[np.int16],
) -> None:
    """Say which rows count in IT, OT, RATIO and below OT, and find bins of output / input.

    has     bool[3], whether the source states input, ttft, completed
    wanted  bool[4, rows], modified
    ratios  int16[rows], modified
    """
    no_it, no_end = not has[0], not has[2]
    for i in range(len(it)):
        passes = (no_it | (it[i] > 0)) & (no_end | (duration[i] == duration[i]))  # not NaN
        wanted[0, i] = passes
        wanted[1, i] = passes & (ot[i] >= 0)
        wanted[2, i] = passes & (ot[i] > 0) & (it[i] > 0)
        wanted[3, i] = passes & (ot[i] < 0) & (ot[i] != schema.NULL_INT32)
    for i in range(len(it)):
        ratios[i] = log_bin(ot[i] / max(it[i], 1))


@kernel
def _latencies(
    has: npt.NDArray[np.bool_],
    ttft: npt.NDArray[np.float64],
    duration: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.bool_],
    fractions: npt.NDArray[np.int16],
) -> None:
    """Say which rows count in E2E, TTFT, DECODE and prefill_frac, and find bins of the latter.

    has        as in `_lengths`; absent values are NaN
    wanted     bool[4, rows], modified
    fractions  int16[rows], modified
    """
    no_ttft, no_end = not has[1], not has[2]
    for i in range(len(ttft)):
        begun, ended = ttft[i] > 0.0, duration[i] > 0.0
        late = (no_ttft | begun) & (no_end | ended) & (no_ttft | no_end | (ttft[i] <= duration[i]))
        wanted[0, i] = late & ended
        wanted[1, i] = late & begun
        wanted[2, i] = late & begun & ended
        wanted[3, i] = late & begun & ended & (duration[i] < LIMIT_S)
    for i in range(len(ttft)):
        fractions[i] = ratio_bin(ttft[i] / (duration[i] if duration[i] > 0.0 else 1.0))


@kernel
def _hits(
    lines: int,
    series: npt.NDArray[np.int32],
    it: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    bins: npt.NDArray[np.int16],
    first: npt.NDArray[np.int32],
    wanted: npt.NDArray[np.bool_],
    inside: npt.NDArray[np.int16],
) -> None:
    """Say which rows have a hit ratio, and which have one below 0, and where they are counted.

    lines   series that there are
    bins    see `derived.hit_bins`
    first   int32[rows], modified: where the histogram of the row's length and series begins
    wanted  bool[2, rows], modified; inside: int16[rows], modified, the bin or 0
    """
    for i in range(len(it)):
        length = np.int32(it[i] >= SHORT_TOKENS) + np.int32(it[i] >= LONG_TOKENS)
        first[i] = (length * np.int32(lines) + series[i]) * np.int32(RATIO_BINS)
        wanted[0, i] = bins[i] >= 0
        wanted[1, i] = (bins[i] >= 0) & (ct[i] < 0)
        inside[i] = max(bins[i], 0)


@kernel
def _series(series_of: npt.NDArray[np.int32], model: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Series of each row, int32[rows]."""
    found = np.empty(len(model), np.int32)
    for i in range(len(model)):
        found[i] = series_of[model[i]]
    return found


@dataclass
class ValueHist:
    """Counts by series: each row counts in one, and the global one is their sum.

    logs       int64[6, series, LOG_BINS], metrics of `LOG_METRICS`
    fractions  int64[series, RATIO_BINS]
    hits       int64[3, series, RATIO_BINS], by length of the input
    negative   int64[2, series], rows with an output or cached tokens below 0
    """

    context: Context
    logs: npt.NDArray[np.int64] = field(init=False)
    fractions: npt.NDArray[np.int64] = field(init=False)
    hits: npt.NDArray[np.int64] = field(init=False)
    negative: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        series = OTHERS + 1 + len(self.context.highlights)
        self.logs = np.zeros((len(LOG_METRICS), series, LOG_BINS), np.int64)
        self.fractions = np.zeros((series, RATIO_BINS), np.int64)
        self.hits = np.zeros((3, series, RATIO_BINS), np.int64)
        self.negative = np.zeros((2, series), np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        series_of = np.full(len(self.context.texts.get("model", ())) + 1, OTHERS, np.int32)
        for at, code in enumerate(self.context.highlights, 1):
            series_of[code] = at
        has = np.array([self.context.has(n) for n in ("input_tokens", "ttft_s", "completed_us")])
        series = _series(series_of, int32(batch, "model"))
        first = series * np.int32(LOG_BINS)
        self._add_lengths(batch, has, series, first)
        if has[1] or has[2]:
            self._add_latencies(batch, has, series, first)
        if self.context.has("cached_tokens"):
            self._add_hits(batch, series)

    def _add_lengths(self, batch: Batch, has: Flags, series: Lines, first: Lines) -> None:
        wanted, ratios = np.empty((4, batch.rows), np.bool_), np.empty(batch.rows, np.int16)
        it, ot = int32(batch, "input_tokens"), int32(batch, "output_tokens")
        _lengths(has, it, ot, derived.durations(batch), wanted, ratios)
        bins = derived.token_bins(batch, "input_tokens"), derived.token_bins(batch, "output_tokens"), ratios
        for at, own in zip((IT, OT, RATIO), bins, strict=True):
            add_bins(self.logs[at].reshape(-1), first, own, wanted[at])
        self._add_below(BELOW_OT, series, wanted[3])

    def _add_latencies(self, batch: Batch, has: Flags, series: Lines, first: Lines) -> None:
        wanted, fractions = np.empty((4, batch.rows), np.bool_), np.empty(batch.rows, np.int16)
        _latencies(has, float64(batch, "ttft_s"), derived.durations(batch), wanted, fractions)
        ttft, duration, decode = derived.latency_bins(batch)
        for at, own, counts in zip((E2E, TTFT, DECODE), (duration, ttft, decode), wanted, strict=False):
            add_bins(self.logs[at].reshape(-1), first, own, counts)
        add_bins(self.fractions.reshape(-1), series * np.int32(RATIO_BINS), fractions, wanted[3])

    def _add_hits(self, batch: Batch, series: Lines) -> None:
        if derived.hit_bins(batch).max() < 0:
            return
        first, inside = np.empty(batch.rows, np.int32), np.empty(batch.rows, np.int16)
        wanted = np.empty((2, batch.rows), np.bool_)
        tokens = int32(batch, "input_tokens"), int32(batch, "cached_tokens"), derived.hit_bins(batch)
        _hits(self.hits.shape[1], series, *tokens, first, wanted, inside)
        add_bins(self.hits.reshape(-1), first, inside, wanted[0])
        self._add_below(BELOW_CT, series, wanted[1])

    def _add_below(self, which: int, series: Lines, wanted: Flags) -> None:
        """Count the wanted rows by series; there are hardly any."""
        if wanted.any():
            self.negative[which] += np.bincount(series[wanted], minlength=self.negative.shape[1])

    def merge(self, later: ValueHist) -> None:
        """Fold in the adjacent, later slice."""
        self.logs += later.logs
        self.fractions += later.fractions
        self.hits += later.hits
        self.negative += later.negative

    def tables(self) -> list[Table]:
        """`value_hist`; a metric whose columns the source lacks has no rows."""
        cells, below = [], []
        for at, (metric, needed) in enumerate(LOG_METRICS.items()):
            if all(self.context.has(name) for name in needed):
                cells += self._lines(metric, self.logs[at])
        if self.context.has("completed_us") and self.context.has("ttft_s"):
            cells += self._lines("prefill_frac", self.fractions)
        if self.context.has("input_tokens") and self.context.has("cached_tokens"):
            every = self.hits.sum(axis=0)
            above = every.copy()
            above[:, 0] -= self.negative[BELOW_CT]
            cells += self._lines("hit", every, lt1k=self.hits[SHORT], ge8k=self.hits[LONG])
            cells += self._lines("hit_pos", above)
        for key, counts in self._lines("ot", self.negative[BELOW_OT][:, None]):
            below += [(key, int(counts[0]))] if counts[0] else []
        return [histogram_table("value_hist", ("metric", "series"), cells, DOC, below)]

    def _lines(self, metric: str, counts: npt.NDArray[np.int64], **more: npt.NDArray[np.int64]) -> list[Line]:
        """Counts of all, of `more` (by series each), and of every highlighted model."""
        models = [self.context.texts["model"][code] for code in self.context.highlights]
        sums = [(name, by_series.sum(axis=0)) for name, by_series in {"global": counts, **more}.items()]
        own = zip(models, counts[OTHERS + 1 :], strict=True)
        return [((metric, name), line) for name, line in [*sums, *own]]


VIEW = View(
    "value_hist",
    COLUMNS,
    {"value_hist": ()},
    ValueHist,
    filters=(
        "input_tokens",
        "ttft_s",
        "completed_us",
    ),
)
