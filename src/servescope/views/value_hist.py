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
from servescope.views.sketch import Context, View, held, int32, int64

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
LINEAR_METRICS = {
    "prefill_frac": ("completed_us", "ttft_s"),
    "hit": ("input_tokens", "cached_tokens"),
    "hit_pos": ("input_tokens", "cached_tokens"),
}
IT, OT, RATIO, E2E, TTFT, DECODE, PREFILL, HIT, HIT_POS = range(9)  # their places, one after the other
NONE, NEGATIVE = -1, -2  # in place of a bin
GLOBAL, SHORT, LONG, FIRST_MODEL = 0, 1, 2, 3  # series
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
def _lengths(bins: npt.NDArray[np.int64], it: int, ot: int, tokens: bool) -> None:
    """Bins of one row's input, output and ratio, NONE where it has none; tokens: it passes F-TOK."""
    bins[IT] = log_bin(float(it)) if tokens else NONE
    bins[OT] = bins[RATIO] = NONE
    if tokens and ot != schema.NULL_INT32:
        bins[OT] = log_bin(float(ot)) if ot >= 0 else NEGATIVE
        if ot > 0 and it > 0:
            bins[RATIO] = log_bin(ot / it)


@kernel
def _latencies(bins: npt.NDArray[np.int64], ttft: float, duration: float, late: bool) -> None:
    """Bins of one row's latencies, NONE where it has none; late: it passes F-LAT, absent values are NaN."""
    bins[E2E] = log_bin(duration) if late and duration > 0 else NONE
    bins[TTFT] = log_bin(ttft) if late and ttft > 0 else NONE
    bins[DECODE] = bins[PREFILL] = NONE
    if bins[E2E] != NONE and bins[TTFT] != NONE:
        bins[DECODE] = log_bin(duration - ttft)
        if duration < LIMIT_S:
            bins[PREFILL] = ratio_bin(ttft / duration)


@kernel
def _count(
    logs: npt.NDArray[np.int64],
    linears: npt.NDArray[np.int64],
    negative: npt.NDArray[np.int64],
    series: int,
    bins: npt.NDArray[np.int64],
) -> None:
    """Count one row's bins in one series."""
    for metric in range(len(logs)):
        if bins[metric] >= 0:
            logs[metric, series, bins[metric]] += 1
    for metric in range(len(linears)):
        if bins[len(logs) + metric] >= 0:
            linears[metric, series, bins[len(logs) + metric]] += 1
    if bins[OT] == NEGATIVE:
        negative[series] += 1


@kernel
def _fold(
    logs: npt.NDArray[np.int64],
    linears: npt.NDArray[np.int64],
    negative: npt.NDArray[np.int64],
    series_of: npt.NDArray[np.int64],
    has: npt.NDArray[np.bool_],
    arrival: npt.NDArray[np.int64],
    model: npt.NDArray[np.int32],
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    ttft: npt.NDArray[np.float64],
    completed: npt.NDArray[np.int64],
) -> None:
    """Count rows in logs, int64[6, series, LOG_BINS], linears, int64[3, series, RATIO_BINS], and
    negative, int64[series] (all modified).

    series_of  int64[models + 1], series of a model code beside the global one, GLOBAL for none
    has        bool[3], whether the source states input, ttft, completed
    """
    bins = np.empty(len(logs) + len(linears), np.int64)  # each is found once, for all series of the row
    for i in range(len(arrival)):
        done = completed[i] != schema.NULL_INT64
        tokens = (not has[0] or it[i] > 0) and (not has[2] or done)
        duration = (completed[i] - arrival[i]) / 1e6 if done else np.nan
        late = (not has[1] or ttft[i] > 0) and (not has[2] or duration > 0)
        if has[1] and has[2]:
            late = late and ttft[i] <= duration
        _lengths(bins, it[i], ot[i], tokens)
        _latencies(bins, ttft[i], duration, late)
        bins[HIT] = bins[HIT_POS] = NONE
        if it[i] > 0 and ct[i] != schema.NULL_INT32:
            bins[HIT] = whole_ratio_bin(ct[i], it[i])
            bins[HIT_POS] = bins[HIT] if ct[i] >= 0 else NONE
            if it[i] < SHORT_TOKENS:
                linears[HIT - len(logs), SHORT, bins[HIT]] += 1
            if it[i] >= LONG_TOKENS:
                linears[HIT - len(logs), LONG, bins[HIT]] += 1
        _count(logs, linears, negative, GLOBAL, bins)
        own = series_of[model[i]]
        if own != GLOBAL:
            _count(logs, linears, negative, own, bins)


@dataclass
class ValueHist:
    """logs int64[6, series, LOG_BINS], linears int64[3, series, RATIO_BINS], negative int64[series]."""

    context: Context
    logs: npt.NDArray[np.int64] = field(init=False)
    linears: npt.NDArray[np.int64] = field(init=False)
    negative: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        series = FIRST_MODEL + len(self.context.highlights)
        self.logs = np.zeros((len(LOG_METRICS), series, LOG_BINS), np.int64)
        self.linears = np.zeros((len(LINEAR_METRICS), series, RATIO_BINS), np.int64)
        self.negative = np.zeros(series, np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        series_of = np.full(len(self.context.texts.get("model", ())) + 1, GLOBAL, np.int64)
        for at, code in enumerate(self.context.highlights):
            series_of[code] = FIRST_MODEL + at
        has = np.array([self.context.has(n) for n in ("input_tokens", "ttft_s", "completed_us")])
        ttft = batch.columns.get("ttft_s", np.full(batch.rows, np.nan))
        _fold(
            self.logs, self.linears, self.negative, series_of, has,
            int64(batch, "arrival_us"), int32(batch, "model"), int32(batch, "input_tokens"),
            int32(batch, "output_tokens"), int32(batch, "cached_tokens"),
            ttft.astype(np.float64, copy=False), int64(batch, "completed_us"),
        )  # fmt: skip

    def merge(self, later: ValueHist) -> None:
        """Fold in the adjacent, later slice."""
        self.logs += later.logs
        self.linears += later.linears
        self.negative += later.negative

    def tables(self) -> list[Table]:
        """`value_hist`; a metric whose columns the source lacks has no rows."""
        models = [self.context.texts["model"][code] for code in self.context.highlights]
        series = ["global", "lt1k", "ge8k", *models]
        cells = []
        for metrics, counts in ((LOG_METRICS, self.logs), (LINEAR_METRICS, self.linears)):
            for at, (metric, needed) in enumerate(metrics.items()):
                if all(self.context.has(name) for name in needed):
                    cells += [((metric, name), counts[at, s]) for s, name in enumerate(series)]
        return [histogram_table("value_hist", ("metric", "series"), cells, DOC, self._below(series))]

    def _below(self, series: list[str]) -> list[tuple[tuple[str, str], int]]:
        return [(("ot", name), int(n)) for name, n in zip(series, self.negative, strict=True) if n]


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
