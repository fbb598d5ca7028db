"""The study's view 4, prefix caching as logged: D1, and the return times D5 to D7."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from servescope.report.charts_models import short_names
from servescope.report.figure import SERIES, Drawing, Figure, NotDrawn, chart, number, percent
from servescope.report.study.cells import Floats, half_log_cells, histogram_curve, keys, numbers, whole
from servescope.report.study.charts import (
    BINNED,
    CACHING,
    EXACT,
    GLOBAL,
    IDS,
    KEYED,
    LABEL,
    RATIOS,
    SQUARES,
    bands,
    density,
    finite,
    log_axis,
)
from servescope.report.study.evolution import NAMES
from servescope.report.study.load_values import by_model, value_curves

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

BY_LENGTH = {"global": GLOBAL, "lt1k": "input < 1,000", "ge8k": "input ≥ 8,000"}
LEAST_GAPS = 10
TTL_LOW_S, TTL_HIGH_S = 1e-3, 1e4
MARKS = {"1 minute": 60.0, "1 hour": 3600.0}


def hits_by_length(saved: Saved) -> Drawing:
    """D1."""
    return value_curves(saved, "hit", BY_LENGTH, "cached tokens / input tokens", log=False)


def user_months(saved: Saved) -> Drawing:
    """D5."""
    data = saved.arrow("user_month_gap")
    data = data.filter(whole(data, "n_gaps") >= LEAST_GAPS)
    if not data.num_rows:
        raise NotDrawn(f"no user has {LEAST_GAPS} gaps above 0 in a month")
    month = whole(data, "month")
    values = np.stack([numbers(data, name) for name in NAMES], axis=1)
    rows = []
    for one in np.unique(month):
        middle = np.median(values[month == one], axis=0)
        rows.append({"x": int(one), **{n: finite(float(v)) for n, v in zip(NAMES, middle, strict=True)}})
    if len(rows) < 2:
        raise NotDrawn(f"needs at least 2 months in which users have {LEAST_GAPS} gaps above 0")
    drawn = bands(
        rows,
        "month of the trace clock",
        "seconds between requests",
        log=True,
        calendar=saved.calendar,
        opacity=(0.10, 0.25),
    )
    users = len(set(keys(data, "user").codes.tolist()))
    listed = ", ".join(number(row["p50"]) for row in rows)
    says = f"The median user's median gap by month: {listed} s."
    return Drawing(
        drawn,
        says,
        "",
        f"{data.num_rows:,} user-months of {users:,} users, {int(whole(data, 'n_gaps').sum()):,} gaps",
    )


def box(values: Floats) -> Row:
    """Median, quartiles and whiskers (the outermost values within 1.5 quartile distances)."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    ends = {"low": float(inside.min()), "high": float(inside.max())}
    return {"q1": float(low), "q2": float(middle), "q3": float(high), **ends, "n": len(values)}


def pair_returns(saved: Saved) -> Drawing:
    """D6."""
    data = saved.arrow("pair_gap")
    median = numbers(data, "p50")
    data = data.filter((whole(data, "n_gaps") >= LEAST_GAPS) & np.isfinite(median))
    of, median = keys(data, "model"), numbers(data, "p50")
    sizes = np.bincount(of.codes, minlength=len(of.names)) if len(of.codes) else np.zeros(0)
    order = [int(at) for at in np.argsort(-sizes, kind="stable") if sizes[at]][:SERIES]
    if not order:
        raise NotDrawn(f"no user has {LEAST_GAPS} gaps above 0 with a highlighted model")
    names = short_names([of.names[at] for at in order])
    rows = [{"model": n, **box(median[of.codes == at])} for n, at in zip(names, order, strict=True)]
    base = chart(rows, 60 + 46 * len(rows)).encode(
        y=alt.Y("model:N", sort=names, title=None).axis(labelLimit=150),
        tooltip=[
            "model:N",
            *(alt.Tooltip(f"{c}:Q", format=",.3~g") for c in ("low", "q1", "q2", "q3", "high")),
            "n:Q",
        ],
    )
    title = "median gap of a pair, s"
    drawn = alt.layer(
        base.mark_rule().encode(x=alt.X("low:Q", title=title), x2="high:Q"),
        base.mark_bar(size=20, opacity=0.85).encode(x="q1:Q", x2="q3:Q"),
        base.mark_tick(size=20, thickness=2, style="middle").encode(x="q2:Q"),
    )
    medians = ", ".join(f"{row['model']} {number(row['q2'])} s" for row in rows)
    return Drawing(
        drawn, f"Median pair: {medians}.", "", f"{sum(row['n'] for row in rows):,} pairs of user and model"
    )


def coverage_at(saved: Saved, ttl_s: float) -> float:
    """Share of pooled gaps at or below a time; inside a bin the share grows with the log of time."""
    data = saved.arrow("pair_gap_hist")
    low, high, count = numbers(data, "bin_low"), numbers(data, "bin_high"), numbers(data, "count")
    inside = np.clip(np.log(ttl_s / low) / np.log(high / low), 0.0, 1.0)
    return float((inside * count).sum() / count.sum())


def coverage(saved: Saved) -> Drawing:
    """D7."""
    data = saved.arrow("pair_gap_hist")
    total = int(whole(data, "count").sum())
    if not total:
        raise NotDrawn(f"no pair of user and model has {LEAST_GAPS} gaps above 0")
    points = histogram_curve(data)
    rows = [{"x": x, "y": y} for x, y in points if TTL_LOW_S <= x <= TTL_HIGH_S]
    rows = [{"x": TTL_LOW_S, "y": round(coverage_at(saved, TTL_LOW_S), 5)}, *rows]
    rows.append({"x": TTL_HIGH_S, "y": round(coverage_at(saved, TTL_HIGH_S), 5)})
    line = (
        chart(rows)
        .mark_line()
        .encode(
            x=alt.X("x:Q", title="time to live, seconds")
            .scale(type="log", domain=[TTL_LOW_S, TTL_HIGH_S], nice=False)
            .axis(**log_axis(TTL_LOW_S, TTL_HIGH_S)),
            y=alt.Y("y:Q", title="repeat requests within it")
            .scale(domain=[0, 1.02], nice=False)
            .axis(format="%"),
            tooltip=[alt.Tooltip("x:Q", format=",.3~g"), alt.Tooltip("y:Q", format=".1%")],
        )
    )
    marks = chart([{"x": at, "text": name} for name, at in MARKS.items()]).encode(x="x:Q")
    drawn = alt.layer(
        marks.mark_rule(style="reference"),
        marks.mark_text(align="left", dx=4, baseline="bottom").encode(y=alt.value(252), text="text:N"),
        line,
    )
    shares = ", ".join(f"{percent(coverage_at(saved, at))} within {name}" for name, at in MARKS.items())
    beyond = percent(1 - coverage_at(saved, TTL_HIGH_S))
    return Drawing(
        drawn,
        f"Of all repeat requests {shares}; {beyond} return later than the axis shows.",
        "",
        f"{total:,} gaps",
    )


def hit_by_volume(saved: Saved, table: str, above: int) -> Drawing:
    """D3 (models) and D4 (users): mean of the cached share against the number of requests."""
    data = saved.arrow(table)
    n, total = numbers(data, "n_hit"), numbers(data, "hit_sum")
    held = (n > above) & np.isfinite(total)
    who = {"user_stats": "users", "model_stats": "models"}[table]
    if not held.any():
        raise NotDrawn(f"none of the {who} has more than {above} requests with known cached tokens")
    mean = np.clip(total[held] / n[held], 0.0, 1.0)
    rows, per = half_log_cells(n[held], mean, 40, 25)
    drawn = density(rows, "requests with known cached tokens", "mean cached share", who, linear=True)
    says = (
        f"{int(held.sum()):,} {who}: mean cached share {percent(float(np.median(mean)))} in the median; "
        f"{percent(float(np.mean(mean < 0.1)))} of them stay below 10%."
    )
    remark = f"Cells of 10^(1/{per}) across and 4% up; empty ones are blank."
    return Drawing(drawn, says, remark, f"{int(held.sum()):,} {who}, {int(n[held].sum()):,} requests")


REPORTED = "What the service did with its cache, not what was possible; only where cached tokens are logged."
REPEATS = "Only gaps above 0: simultaneous requests are no return. " + IDS

FIGURES: dict[str, Figure] = {
    "d1_request_cached_fraction_cdf_by_input": Figure(
        "Cached part by prompt length", CACHING,
        "Share of requests with input above 0 by cached / input in [0, 1]: all, below 1,000 and from 8,000 "
        "tokens.",
        REPORTED, ("value_hist",), hits_by_length, "D1", "fig_request_cached_fraction_cdf_by_input", RATIOS,
        "The study's label >8K includes 8,000 itself.",
    ),
    "d2_request_token_hit_rate_cdf_by_model": Figure(
        "Cached part by model", CACHING,
        "Share of requests with input above 0 and cached tokens of at least 0 by cached / input, at most 1.",
        REPORTED, ("value_hist",),
        partial(by_model, metric="hit_pos", x="cached tokens / input tokens", log=False),
        "D2", "fig_request_token_hit_rate_cdf_by_model", RATIOS, LABEL,
    ),
    "d3_model_nreq_vs_avg_hitratio_hexbin": Figure(
        "Models: volume and reuse", CACHING,
        "Models with more than 100 requests with input above 0 and known cached tokens, by their number and "
        "by "
        "the mean of cached / input over them (not sum / sum).",
        REPORTED, ("model_stats",), partial(hit_by_volume, table="model_stats", above=100),
        "D3", "fig_model_nreq_vs_avg_hitratio_hexbin", EXACT, SQUARES,
    ),
    "d4_user_nreq_vs_avg_hitratio_hexbin": Figure(
        "Users: volume and reuse", CACHING, "As D3, for users with more than 10 such requests.",
        f"{REPORTED} {IDS}", ("user_stats",), partial(hit_by_volume, table="user_stats", above=10),
        "D4", "fig_user_nreq_vs_avg_hitratio_hexbin", EXACT, f"{KEYED} {SQUARES}",
    ),
    "d5_iat_monthly_per_user_band": Figure(
        "How fast a user returns", CACHING,
        "Gaps between a user's requests inside a month, of user-months with at least 10 gaps: the median "
        "over "
        "users of each user's P50 (line), P25 to P75 and P10 to P90 (bands).",
        "The bands are the spread within a typical user, not across users. " + REPEATS,
        ("user_month_gap",), user_months, "D5", "fig_iat_monthly_per_user_band", BINNED, KEYED,
    ),
    "d6_per_user_iat_p50_by_model": Figure(
        "Return time by model", CACHING,
        "Median gap of each user with a highlighted model, pairs with at least 10 gaps: median, quartiles "
        "and "
        "whiskers to the last pair within 1.5 quartile distances; pairs beyond are not shown.",
        "Gaps over the whole trace: a pause of months is one gap. " + REPEATS,
        ("pair_gap",), pair_returns, "D6", "fig_per_user_iat_p50_by_model", BINNED, f"{KEYED} {LABEL}",
    ),
    "d7_iat_pair_ttl_coverage": Figure(
        "Repeat requests within a time to live", CACHING,
        "Share of the gaps between a user's requests to a model that are at most so long, over all gaps of "
        "pairs "
        "with at least 10. Dotted: 1 minute, 1 hour.",
        "Returning in time is necessary for a hit, not sufficient: the prompt may be another. " + REPEATS,
        ("pair_gap_hist",), coverage, "D7", "fig_iat_pair_ttl_coverage", BINNED,
        f"The gaps themselves are pooled; the study averages each pair's percentiles, which is the same. "
        f"{KEYED}",
    ),
}  # fmt: skip
