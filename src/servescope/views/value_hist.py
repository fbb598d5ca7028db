"""`value_hist`: distributions of lengths, latencies and hit ratios, for all and for some models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.histogram import LOG_BINS, RATIO_BINS, log_bin, ratio_bin, whole_ratio_bin
from servescope.kernels.jit import kernel
from servescope.tables import histogram_table
from servescope.views.derived import token_bins
from servescope.views.sketch import Context, View, float64, held, int32, int64

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
    logs: npt.NDArray[np.int64],
    negative: npt.NDArray[np.int64],
    series: npt.NDArray[np.int8],
    tokens: npt.NDArray[np.bool_],
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    it_bin: npt.NDArray[np.int16],
    ot_bin: npt.NDArray[np.int16],
) -> None:
    """Count input, output and ratio of rows that pass F-TOK (`tokens`); the counts as in `ValueHist`.

    No branch depends on a row: what it does not count adds 0 to the bin of 1.
    """
    for i in range(len(it)):
        own = series[i]
        known = tokens[i] & (ot[i] != schema.NULL_INT32)
        logs[IT, own, it_bin[i]] += tokens[i]
        logs[OT, own, ot_bin[i]] += known & (ot[i] >= 0)
        negative[BELOW_OT, own] += known & (ot[i] < 0)
        both = tokens[i] & (ot[i] > 0) & (it[i] > 0)
        logs[RATIO, own, log_bin(ot[i] / it[i] if both else 1.0)] += both


@kernel
def _latencies(
    logs: npt.NDArray[np.int64],
    fractions: npt.NDArray[np.int64],
    series: npt.NDArray[np.int8],
    has: npt.NDArray[np.bool_],
    ttft: npt.NDArray[np.float64],
    duration: npt.NDArray[np.float64],
) -> None:
    """Count latencies, as `_lengths` does; absent values are NaN.

    has  bool[3], whether the source states input, ttft, completed
    """
    for i in range(len(ttft)):
        own = series[i]
        late = ((not has[1]) | (ttft[i] > 0)) & ((not has[2]) | (duration[i] > 0))
        late &= (not (has[1] and has[2])) | (ttft[i] <= duration[i])
        ended, begun = late & (duration[i] > 0), late & (ttft[i] > 0)
        both = ended & begun
        logs[E2E, own, log_bin(duration[i] if ended else 1.0)] += ended
        logs[TTFT, own, log_bin(ttft[i] if begun else 1.0)] += begun
        rest = duration[i] - ttft[i]
        logs[DECODE, own, log_bin(rest if rest > 0.0 else 1.0) * (rest > 0.0)] += both
        short = both & (duration[i] < LIMIT_S)
        fractions[own, ratio_bin(ttft[i] / duration[i] if short else 0.5)] += short


@kernel
def _hits(
    hits: npt.NDArray[np.int64],
    negative: npt.NDArray[np.int64],
    series: npt.NDArray[np.int8],
    it: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
) -> None:
    """Count hit ratios; the counts as in `ValueHist`."""
    for i in range(len(it)):
        if ct[i] != schema.NULL_INT32 and it[i] > 0:
            length = (it[i] >= SHORT_TOKENS) + np.int64(it[i] >= LONG_TOKENS)
            hits[length, series[i], whole_ratio_bin(ct[i], it[i])] += 1
            negative[BELOW_CT, series[i]] += ct[i] < 0


@kernel
def _series(series_of: npt.NDArray[np.int8], model: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Series of each row, int8[rows]."""
    found = np.empty(len(model), np.int8)
    for i in range(len(model)):
        found[i] = series_of[model[i]]
    return found


@kernel
def _passes(
    has: npt.NDArray[np.bool_],
    arrival: npt.NDArray[np.int64],
    completed: npt.NDArray[np.int64],
    it: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Whether each row passes F-TOK, and its duration in seconds, NaN where unknown."""
    tokens, duration = np.empty(len(it), np.bool_), np.empty(len(it))
    for i in range(len(it)):
        done = completed[i] != schema.NULL_INT64
        tokens[i] = ((not has[0]) | (it[i] > 0)) & ((not has[2]) | done)
        duration[i] = (completed[i] - arrival[i]) / 1e6 if done else np.nan
    return tokens, duration


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
        series_of = np.full(len(self.context.texts.get("model", ())) + 1, OTHERS, np.int8)
        for at, code in enumerate(self.context.highlights, 1):
            series_of[code] = at
        has = np.array([self.context.has(n) for n in ("input_tokens", "ttft_s", "completed_us")])
        series = _series(series_of, int32(batch, "model"))
        it, ot = int32(batch, "input_tokens"), int32(batch, "output_tokens")
        tokens, duration = _passes(has, int64(batch, "arrival_us"), int64(batch, "completed_us"), it)
        bins = (token_bins(batch, name) for name in ("input_tokens", "output_tokens"))
        _lengths(self.logs, self.negative, series, tokens, it, ot, *bins)
        if has[1] or has[2]:
            _latencies(self.logs, self.fractions, series, has, float64(batch, "ttft_s"), duration)
        if self.context.has("cached_tokens"):
            _hits(self.hits, self.negative, series, it, int32(batch, "cached_tokens"))

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
