"""The study's view 1, what requests are like: A6 to A13."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.charts_lengths import quantile
from servescope.report.charts_models import short_names
from servescope.report.figure import SERIES, Drawing, Figure, NotDrawn, number
from servescope.report.study.cells import (
    equal,
    grouped_quantiles,
    histogram_curve,
    keys,
    numbers,
    whole,
)
from servescope.report.study.charts import (
    BINNED,
    GLOBAL,
    LABEL,
    LOAD,
    RATIOS,
    READABLE,
    SHIFTED,
    cells,
    curves,
    finite,
    log_axis,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servescope.report.saved import Saved

    Row = dict[str, Any]

INPUT_LIMIT, OUTPUT_LIMIT = 32_000, 8_000  # lower edges of the last cells shown
IT_STEP, OT_STEP = 2_000, 200
NOT_MODELS = ("global", "lt1k", "ge8k")


def highlighted(saved: Saved) -> list[str]:
    """Models with series of their own, in the order of the table."""
    names = keys(saved.arrow("value_hist"), "series").in_order()
    return [name for name in names if name not in NOT_MODELS]


def value_curves(
    saved: Saved, metric: str, series: Mapping[str, str], x: str, *, what: str = "requests", log: bool = True
) -> Drawing:
    """Cumulative shares of one metric of `value_hist`.

    series  series of the table -> its name in the figure, in the order of the legend
    """
    data = equal(saved.arrow("value_hist"), "metric", metric)
    rows: list[Row] = []
    names, medians, samples = [], [], []
    for key, name in series.items():
        part = equal(data, "series", key)
        points = histogram_curve(part)
        if not points:
            continue
        shown = [(a, b) for a, b in points if a > 0 or not log]
        rows += [{"x": a, "y": b, "series": name} for a, b in shown]
        names.append(name)
        medians.append(f"{name} {number(quantile(part.to_pylist(), 0.5))}")
        samples.append(f"{name} {int(whole(part, 'count').sum()):,}")
    if not rows:
        raise NotDrawn("no request has the values that this figure needs")
    axis = alt.X("x:Q", title=x)
    if log:
        low, high = min(r["x"] for r in rows), max(r["x"] for r in rows)
        if low == high:
            raise NotDrawn("all values fall into one bin")
        ticks = log_axis(low, high)
        axis = axis.scale(type="log", nice=False).axis(**ticks)
    else:
        axis = axis.scale(domain=[0, 1], nice=False)
    zeros = [row for row in data.filter(pc.equal(data["bin_high"], 0.0)).to_pylist() if row["count"]]
    remark = "Zeros lie left of the axis; the curves begin above their share." if zeros and log else ""
    says = f"Medians: {', '.join(medians)}."
    return Drawing(curves(rows, names, axis, what=what), says, remark, "; ".join(samples) + f" {what}")


def by_model(saved: Saved, metric: str, x: str, *, log: bool = True) -> Drawing:
    """All requests and each highlighted model: A6 to A10, D2."""
    models = highlighted(saved)[: SERIES - 1]
    series = {"global": GLOBAL, **dict(zip(models, short_names(models), strict=True))}
    return value_curves(saved, metric, series, x, log=log)


def shape(saved: Saved, metric: str, least: int) -> Drawing:
    """Median of a metric by input and output tokens: A11, A12."""
    data = equal(saved.arrow("shape_cell"), "metric", metric)
    inside = (whole(data, "it_low") <= INPUT_LIMIT) & (whole(data, "ot_low") <= OUTPUT_LIMIT)
    data = data.filter(inside)
    key = whole(data, "it_low") * (1 << 20) + whole(data, "ot_low")
    bins = (numbers(data, "bin_low"), numbers(data, "bin_high"), whole(data, "count"))
    found = grouped_quantiles(key, *bins, (0.5,))
    rows = []
    for k, n, (value,) in zip(*(part.tolist() for part in found), strict=True):
        if n >= least:
            x, y = k >> 20, k & ((1 << 20) - 1)
            rows.append(
                {"x": x, "x2": x + IT_STEP, "y": y, "y2": y + OT_STEP, "value": finite(value), "n": n}
            )
    if not rows:
        raise NotDrawn(f"no cell of request shapes holds {least} requests")
    x = alt.X("x:Q", title="input tokens").scale(domain=[0, INPUT_LIMIT + IT_STEP], nice=False)
    y = alt.Y("y:Q", title="output tokens").scale(domain=[0, OUTPUT_LIMIT + OT_STEP], nice=False)
    word = {"duration": "duration", "ttft": "time to first token"}[metric]
    low, high = min(r["value"] for r in rows), max(r["value"] for r in rows)
    says = f"Median {word} by shape: from {number(low)} to {number(high)} s over {len(rows)} cells."
    drawn = cells(rows, x.axis(labelExpr=READABLE), y.axis(labelExpr=READABLE), f"median {word}, s")
    return Drawing(drawn, says, "", f"{sum(r['n'] for r in rows):,} requests in cells shown")


def ttft_by_hit(saved: Saved, least: int) -> Drawing:
    """A13."""
    data = saved.arrow("hit_cell")
    data = data.filter(whole(data, "it_low") <= INPUT_LIMIT)
    tenth = np.round(numbers(data, "hit_tenth") * 10).astype(np.int64)
    key = whole(data, "it_low") // IT_STEP * 11 + tenth
    bins = (numbers(data, "bin_low"), numbers(data, "bin_high"), whole(data, "count"))
    found = grouped_quantiles(key, *bins, (0.5,))
    names = [f"{i * 10}–{i * 10 + 10}%" for i in range(10)] + ["all"]
    rows = []
    for k, n, (value,) in zip(*(part.tolist() for part in found), strict=True):
        if n >= least:
            x = k // 11 * IT_STEP
            rows.append({"x": x, "x2": x + IT_STEP, "y": names[k % 11], "value": finite(value), "n": n})
    if not rows:
        raise NotDrawn(f"no cell of prompt length and cached share holds {least} requests")
    x = alt.X("x:Q", title="input tokens").scale(domain=[0, INPUT_LIMIT + IT_STEP], nice=False)
    y = alt.Y("y:O", title="cached part of the prompt", sort=names[::-1], scale=alt.Scale(domain=names[::-1]))
    drawn = cells(rows, x.axis(labelExpr=READABLE), y, "median time to first token, s")
    low, high = min(r["value"] for r in rows), max(r["value"] for r in rows)
    says = f"Median time to first token from {number(low)} to {number(high)} s over {len(rows)} cells."
    return Drawing(drawn, says, "", f"{sum(r['n'] for r in rows):,} requests in cells shown")


COMPLETED = "completed requests with input above 0"

FIGURES: dict[str, Figure] = {
    "a6_token_length_input_cdf_by_model": Figure(
        "Prompt sizes by model", LOAD, f"Share of {COMPLETED} by input tokens: all, and highlighted models.",
        "A cut-off at the right edge is a context limit, not the users' wish.",
        ("value_hist",), partial(by_model, metric="it", x="input tokens"),
        "A6", "fig_token_length_input_cdf_by_model", BINNED, LABEL,
    ),
    "a7_token_length_output_cdf_by_model": Figure(
        "Answer sizes by model", LOAD,
        f"Share of {COMPLETED} by output tokens (0 included): all, and highlighted models.",
        "Answers cut by a limit or by the client count with what they had.",
        ("value_hist",), partial(by_model, metric="ot", x="output tokens"),
        "A7", "fig_token_length_output_cdf_by_model", BINNED, LABEL,
    ),
    "a8_output_input_ratio_cdf_by_model": Figure(
        "Output to input", LOAD, f"Share of {COMPLETED} and output above 0 by output / input tokens.",
        "Requests without any output are left out.",
        ("value_hist",), partial(by_model, metric="ratio", x="output tokens / input tokens"),
        "A8", "fig_output_input_ratio_cdf_by_model", BINNED, LABEL,
    ),
    "a9_latency_e2e_cdf_by_model": Figure(
        "End-to-end latency", LOAD, "Share of requests with 0 < TTFT ≤ duration by duration.",
        "Only requests that carry a time to first token: it stands in for streaming without being the same.",
        ("value_hist",), partial(by_model, metric="e2e", x="seconds"),
        "A9", "fig_latency_e2e_cdf_by_model", BINNED, LABEL,
    ),
    "a10_prefill_fraction_cdf_by_model": Figure(
        "Wait for the first token", LOAD,
        "Share of requests with 0 < TTFT ≤ duration < 300 s by TTFT / duration.",
        "TTFT includes queueing, so it is an upper bound of the prefill part.",
        ("value_hist",), partial(by_model, metric="prefill_frac", x="TTFT / duration", log=False),
        "A10", "fig_prefill_fraction_cdf_by_model", RATIOS, LABEL,
    ),
    "a11_duration_p50_heatmap": Figure(
        "Duration by shape", LOAD,
        "Median duration of requests with 0 < duration < 300 s in cells of 2,000 input and 200 output "
        "tokens; "
        "cells of at least 50 requests up to 34,000 and 8,200 tokens.",
        "Other models and hours lie in every cell: the mix changes along both axes.",
        ("shape_cell",), partial(shape, metric="duration", least=50),
        "A11", "fig_duration_p50_heatmap", BINNED, SHIFTED,
    ),
    "a12_ttft_p50_heatmap_input_output": Figure(
        "TTFT by shape", LOAD,
        "Median TTFT of requests with 0 < TTFT < 300 s, completed or not, in the cells of A11.",
        "Includes queueing. Rows are another population than A11's, which need no TTFT.",
        ("shape_cell",), partial(shape, metric="ttft", least=50),
        "A12", "fig_ttft_p50_heatmap_input_output", BINNED, SHIFTED,
    ),
    "a13_ttft_heatmap_input_cached": Figure(
        "TTFT by cached part", LOAD,
        "Median TTFT of requests with 0 < TTFT < 300 s and known cached tokens, by input (cells of 2,000 "
        "tokens) and cached / input in tenths; “all” is the whole prompt. Cells of at least 200 requests.",
        "Cached tokens are what the service reports, for the part of the trace that has them.",
        ("hit_cell",), partial(ttft_by_hit, least=200),
        "A13", "fig_ttft_heatmap_input_cached", BINNED, SHIFTED,
    ),
}  # fmt: skip
