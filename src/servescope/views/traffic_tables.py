"""The tables of `traffic`, from its finished parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from servescope.kernels.jit import kernel
from servescope.result import Table
from servescope.tables import histogram_table, ratio, stacked
from servescope.views.arrivals import MEAN_US, PEAK_US, Ints, windows_us

if TYPE_CHECKING:
    from servescope.views.arrivals import Arrivals
    from servescope.views.lengths import Lengths
    from servescope.views.sketch import Context
    from servescope.views.turns import Turns

ALL = "*"
I64, F64, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
RATE = (
    "Requests and tokens by window, from time 0 to the last request, for all (*) and for each request "
    "type. Windows are left-closed, empty ones are rows with 0; complete: the window ends no later than "
    "the last arrival. Unknown tokens count as 0."
)
ARRIVALS = (
    "Arrivals of all (*) and of each request type inside its own series. span_s is last - first arrival; "
    "windows_span_s runs from 0 to the end of the last window of window_s. iat_* use all gaps, zeros "
    "included; iat_positive_* only gaps above 0. peak_to_mean: busiest 10 s window / mean of all of them."
)
SUMMARY = (
    "One row for all (*) and for each request type. Rates divide by the time from 0 to the end of the last "
    "10 s window; the last 300 s window may be partial; iat_cv is the population value over all gaps; "
    "quantiles are good to 2.4 %; output leaves failed requests out; multi_turn_fraction: requests with a "
    "stated parent or child in the trace; turns_max: largest stated turn."
)
SHARE = "Requests and tokens of each request type and their shares, heaviest first; null: no type stated."
CCDF = (
    "Histograms of input and output tokens, all (*) and by request type; count is per bin, not cumulative. "
    "Unknown values and the output of failed requests are left out."
)
LENGTHS = (
    "Token counts of all (*) and of each request type. unknown and failed_excluded (output of failed "
    "requests) are not in n; quantiles are good to 2.4 %, sum, mean and max are exact."
)


def scopes(context: Context) -> list[tuple[int, str]]:
    """Number and text of every scope: all, then each request type."""
    return list(enumerate([ALL, *context.texts.get("request_type", ())]))


def rate(context: Context, arrivals: Arrivals) -> Table:
    """`rate`."""
    pieces = []
    for scope, text in scopes(context):
        for us in dict.fromkeys(windows_us(context.options.windows_s)):
            counts = arrivals.counts(us, scope)
            if counts is not None:
                pieces.append(_rates(context, counts, us, text))
    return Table("rate", pa.concat_tables(pieces or [_RATE_COLUMNS.empty_table()]), RATE)


_RATE_COLUMNS = pa.schema(
    {
        "request_type": TEXT,
        "window_s": F64,
        "start_s": F64,
        "requests": I64,
        "input_tokens": I64,
        "output_tokens": I64,
        "complete": BOOL,
    }
)


def _rates(context: Context, counts: Ints, us: int, text: str) -> pa.Table:
    """The rows of one scope and length of window: none of their columns is copied again."""
    windows = len(counts)
    requests, inputs, outputs = (np.ascontiguousarray(counts[:, at]) for at in range(3))
    columns = {
        "request_type": pa.repeat(text, windows),
        "window_s": pa.repeat(us / 1e6, windows),
        "start_s": pa.array(np.arange(windows) * us / 1e6),
        "requests": pa.array(requests),
        "input_tokens": pa.array(inputs) if context.has("input_tokens") else pa.nulls(windows, I64),
        "output_tokens": pa.array(outputs) if context.has("output_tokens") else pa.nulls(windows, I64),
        "complete": pa.array(np.arange(windows) < context.last_us // us),
    }
    return pa.table(columns, schema=_RATE_COLUMNS)


@kernel
def _totals(counts: Ints) -> Ints:
    """Most requests of a window, then the sums of the columns of int64[windows, 3]: int64[4]."""
    found = np.zeros(4, np.int64)
    for i in range(len(counts)):
        found[0] = max(found[0], counts[i, 0])
        for column in range(3):
            found[1 + column] += counts[i, column]
    return found


def _peak(arrivals: Arrivals, scope: int) -> tuple[float | None, float | None, int | None]:
    """Requests per second of the busiest 10 s window, that over the mean, and the windows' whole span."""
    counts = arrivals.counts(PEAK_US, scope)
    if counts is None:
        return None, None, None
    span = len(counts) * PEAK_US
    peak, requests = _totals(counts)[:2].tolist()
    return peak * 1e6 / PEAK_US, ratio(peak * len(counts), requests), span


def arrival_stats(context: Context, arrivals: Arrivals) -> Table:
    """`arrival_stats`."""
    window = windows_us(context.options.windows_s)[0]
    span_us = (context.last_us // window + 1) * window
    rows = []
    for scope, text in scopes(context):
        gaps = arrivals.gaps(scope)
        every, above = gaps.requests - 1, gaps.positive
        peak, peak_to_mean, _ = _peak(arrivals, scope)
        rows.append(
            (
                text,
                gaps.requests,
                gaps.span_us / 1e6,
                window / 1e6,
                span_us / 1e6,
                ratio(gaps.requests * 1e6, gaps.span_us),
                gaps.requests * 1e6 / span_us,
                gaps.mean_s(every),
                gaps.p50_s(),
                gaps.cv(every),
                gaps.cv(every, sample=True),
                above,
                gaps.mean_s(above),
                gaps.p50_s(positive=True),
                gaps.cv(above),
                gaps.cv(above, sample=True),
                peak,
                peak_to_mean,
                above + 1,
            )
        )
    return stacked("arrival_stats", _ARRIVAL_COLUMNS, rows, ARRIVALS)


_ARRIVAL_COLUMNS = {
    "request_type": TEXT,
    "requests": I64,
    "span_s": F64,
    "window_s": F64,
    "windows_span_s": F64,
    "requests_per_s_over_span": F64,
    "requests_per_s_over_windows": F64,
    "iat_mean_s": F64,
    "iat_p50_s": F64,
    "iat_cv_population": F64,
    "iat_cv_sample": F64,
    "positive_gaps": I64,
    "iat_positive_mean_s": F64,
    "iat_positive_p50_s": F64,
    "iat_positive_cv_population": F64,
    "iat_positive_cv_sample": F64,
    "peak_10s_per_s": F64,
    "peak_to_mean": F64,
    "distinct_timestamps": I64,
}


def type_summary(context: Context, arrivals: Arrivals, lengths: Lengths, turns: Turns) -> Table:
    """`type_summary`; the columns that need times are null where the source has none."""
    multi = turns.multi_turn()
    rows = []
    for scope, text in scopes(context):
        requests = arrivals.gaps(scope).requests
        linked = None if multi is None else int(multi.sum() if scope == 0 else multi[scope - 1])
        rows.append(
            (
                text,
                requests,
                *(_timed(context, arrivals, scope)),
                *_quantiles(lengths, scope, "input"),
                *_quantiles(lengths, scope, "output"),
                *_token_rates(context, arrivals, scope),
                ratio(linked, requests),
                turns.turns_max(scope),
            )
        )
    return stacked("type_summary", _SUMMARY_COLUMNS, rows, SUMMARY)


_SUMMARY_COLUMNS = {
    "request_type": TEXT,
    "requests": I64,
    "requests_per_s": F64,
    "peak_10s_per_s": F64,
    "mean_300s_min_per_s": F64,
    "mean_300s_max_per_s": F64,
    "peak_to_mean": F64,
    "iat_p50_s": F64,
    "iat_cv": F64,
    "input_p50": F64,
    "input_p99": F64,
    "output_p50": F64,
    "output_p99": F64,
    "input_tokens_per_s": F64,
    "output_tokens_per_s": F64,
    "multi_turn_fraction": F64,
    "turns_max": I64,
}


def has_times(context: Context) -> bool:
    """Whether the source has arrival times."""
    return context.meta.origin.kind != "none"


def _timed(context: Context, arrivals: Arrivals, scope: int) -> tuple[float | None, ...]:
    if not has_times(context):
        return (None,) * 7
    gaps = arrivals.gaps(scope)
    peak, peak_to_mean, span = _peak(arrivals, scope)
    means = arrivals.counts(MEAN_US, scope)
    return (
        ratio(gaps.requests * 1e6, span),
        peak,
        None if means is None else int(means[:, 0].min()) * 1e6 / MEAN_US,
        None if means is None else int(means[:, 0].max()) * 1e6 / MEAN_US,
        peak_to_mean,
        gaps.p50_s(),
        gaps.cv(gaps.requests - 1),
    )


def _token_rates(context: Context, arrivals: Arrivals, scope: int) -> tuple[float | None, float | None]:
    counts = arrivals.counts(PEAK_US, scope)
    if counts is None or not has_times(context):
        return None, None
    sums = _totals(counts)[1:] * 1e6 / (len(counts) * PEAK_US)
    held = [context.has(name) for name in ("input_tokens", "output_tokens")]
    return (float(sums[1]) if held[0] else None, float(sums[2]) if held[1] else None)


def _quantiles(lengths: Lengths, scope: int, metric: str) -> tuple[float | None, float | None]:
    if metric not in lengths.metrics:
        return None, None
    length = lengths.length(scope, metric)
    return length.quantile(0.5), length.quantile(0.99)


def type_share(context: Context, arrivals: Arrivals) -> Table:
    """`type_share`."""
    # every kept length of window holds all rows; the longest has the fewest windows
    line = arrivals.windows[max(arrivals.windows)] if arrivals.windows else None
    sums = np.zeros((1, 3), np.int64) if line is None else line.held.sum(axis=0)
    texts = [*context.texts.get("request_type", ()), None]
    total = sums.sum(axis=0).tolist()
    held = [True, context.has("input_tokens"), context.has("output_tokens")]
    rows = []
    for at in np.argsort(-sums[:, 0], kind="stable").tolist():
        if sums[at, 0]:
            own = [int(n) if h else None for n, h in zip(sums[at], held, strict=True)]
            pairs = [(part, ratio(part, whole)) for part, whole in zip(own, total, strict=True)]
            rows.append((texts[at], *(value for pair in pairs for value in pair)))
    names = ("requests", "request_share", "input_tokens", "input_share", "output_tokens", "output_share")
    kinds = {name: F64 if name.endswith("share") else I64 for name in names}
    return stacked("type_share", {"request_type": TEXT, **kinds}, rows, SHARE)


def lengths(context: Context, parts: Lengths) -> list[Table]:
    """`length_ccdf` and `length_stats`."""
    cells = []
    rows = []
    for scope, text in scopes(context):
        for metric in parts.metrics:
            length = parts.length(scope, metric)
            if metric != "cached":
                cells.append(((text, metric), length.bins))
            quantiles = [length.quantile(q) for q in (0.1, 0.5, 0.9, 0.99)]
            mean = ratio(length.total, length.n)
            counts = (length.n, length.unknown, length.failed_excluded)
            rows.append((text, metric, *counts, length.total, mean, *quantiles, length.most))
    counted = dict.fromkeys(("n", "unknown", "failed_excluded", "sum"), I64)
    measured = dict.fromkeys(("mean", "p10", "p50", "p90", "p99"), F64)
    columns = {"request_type": TEXT, "metric": TEXT, **counted, **measured, "max": I64}
    return [
        histogram_table("length_ccdf", ("request_type", "metric"), cells, CCDF),
        stacked("length_stats", columns, rows, LENGTHS),
    ]
