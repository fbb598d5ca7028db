"""Figures of what is in a request: prompt and answer sizes, latencies, drift over months."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import (
    SERIES,
    SHORT,
    Drawing,
    NotDrawn,
    chart,
    colour,
    dots,
    number,
    percent,
    ticks,
)
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from servescope.report.saved import Saved

    Row = dict[str, Any]

CURVE_POINTS = 400  # of one series: a log axis of 600 px shows no more
QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90)


def exceedance(bins: Iterable[Row]) -> list[tuple[float, float]]:
    """(value, share of requests with at least that value) at each bin's lower edge, from counts.

    bins  rows with bin_low, bin_high, count, any order

    >>> exceedance([{"bin_low": 1, "bin_high": 2, "count": 3}, {"bin_low": 2, "bin_high": 3, "count": 1}])
    [(1, 1.0), (2, 0.25)]
    """
    used = sorted((row for row in bins if row["count"]), key=lambda row: float(row["bin_low"]))
    total = sum(row["count"] for row in used)
    points, above = [], total
    for row in used:
        points.append((row["bin_low"], above / total))
        above -= row["count"]
    return points


def quantile(bins: Iterable[Row], q: float) -> float:
    """Value below which a share `q` of the counts lies, as its bin's geometric middle; NaN without any."""
    used = sorted((row for row in bins if row["count"]), key=lambda row: float(row["bin_low"]))
    total = sum(row["count"] for row in used)
    seen = 0
    for row in used:
        seen += row["count"]
        if seen >= q * total:
            return math.sqrt(row["bin_low"] * row["bin_high"])
    return math.nan


def thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // CURVE_POINTS)
    return points if step <= 1 else [*points[::step], points[-1]]


def ccdf(saved: Saved, metric: str) -> Drawing:
    """Share of requests with at least so many tokens, both axes logarithmic, by type."""
    by_type: dict[str, list[Row]] = {}
    for row in saved.rows("length_ccdf", metric=metric):
        by_type.setdefault(str(row["request_type"]), []).append(row)
    types = [name for name in saved.types() if name in by_type]
    scopes = [ALL, *types[:SERIES]] if len(types) > 1 else [ALL]
    rows: list[Row] = []
    zeros = 0.0
    for scope in scopes:
        points = exceedance(by_type.get(scope, []))
        if scope == ALL and points and points[0][0] == 0:
            zeros = 1 - (points[1][1] if len(points) > 1 else 0.0)
        name = "all requests" if scope == ALL else scope
        rows += [{"x": x, "y": float(f"{y:.5g}"), "series": name} for x, y in thin(points) if x > 0]
    if not rows:
        raise NotDrawn(f"the trace states no {metric} tokens")
    if len({row["x"] for row in rows}) < 2:
        raise NotDrawn(f"all requests are of one size, about {number(rows[0]['x'])} {metric} tokens")
    names = ["all requests" if scope == ALL else scope for scope in scopes]
    low, high = min(r["x"] for r in rows), max(r["x"] for r in rows)
    drawn = (
        chart(rows)
        .mark_line(interpolate="step-before", point=dots(rows))
        .encode(
            x=alt.X("x:Q", title=f"{metric} tokens of a request")
            .scale(type="log", nice=False)
            .axis(values=ticks(low, high), labelExpr=SHORT),
            y=alt.Y("y:Q", title="share of requests ≥ x")
            .scale(type="log", nice=False, domainMax=1)
            .axis(values=ticks(min(r["y"] for r in rows), 1), format="~g"),
            color=colour(names, total=len(names) > 1),
            tooltip=["series:N", alt.Tooltip("x:Q", format=",.0f"), alt.Tooltip("y:Q", format=".4~f")],
        )
    )
    bins = by_type[ALL]
    says = (
        f"{metric.capitalize()} tokens: median about {number(quantile(bins, 0.5))}, "
        f"99th percentile about {number(quantile(bins, 0.99))}, largest bin from {number(high)}."
    )
    remark = (
        f"{percent(zeros)} of the requests have 0 {metric} tokens and lie left of the axis." if zeros else ""
    )
    return Drawing(drawn, says, remark)


def reached(bins: Sequence[Row], series: str) -> list[Row]:
    """Points x, y, series: the share y of all counts that lies in bins up to x."""
    total, seen = sum(row["count"] for row in bins), 0
    rows: list[Row] = []
    for row in sorted(bins, key=lambda row: float(row["bin_low"])):
        seen += row["count"]
        if row["bin_high"] > 0:
            rows.append({"x": row["bin_high"], "y": round(seen / total, 5), "series": series})
    return rows


def reach_chart(rows: list[Row], order: Iterable[str], *, x: str, y: str, share: str) -> alt.Chart:
    """Points of `reached` as lines over a logarithm; `order` of the series, `share` formats y in a hint."""
    names = [name for name in order if any(row["series"] == name for row in rows)]
    drawn: alt.Chart = (
        chart(rows)
        .mark_line(interpolate="step-after", point=dots(rows))
        .encode(
            x=alt.X("x:Q", title=x)
            .scale(type="log", nice=False)
            .axis(values=ticks(min(r["x"] for r in rows), max(r["x"] for r in rows)), format="~g"),
            y=alt.Y("y:Q", title=y).axis(format="%"),
            color=colour(names),
            tooltip=["series:N", alt.Tooltip("x:Q", format=",.3~f"), alt.Tooltip("y:Q", format=share)],
        )
    )
    return drawn


LATENCIES = {"ttft": "time to first token", "decode": "first token to end", "e2e": "end to end"}


def latency(saved: Saved) -> Drawing:
    """Share of requests at or below a latency, for the trace as a whole."""
    rows: list[Row] = []
    medians = []
    for metric, name in LATENCIES.items():
        bins = saved.rows("value_hist", metric=metric, series="global")
        rows += reached(bins, name)
        if any(row["count"] for row in bins):
            medians.append(f"{name} {number(quantile(bins, 0.5))} s")
    if not rows:
        raise NotDrawn("the trace states neither the time to first token nor the end of a request")
    if len({row["x"] for row in rows}) < 2:
        raise NotDrawn(f"all latencies fall into one bin, up to {number(rows[0]['x'])} s")
    drawn = reach_chart(rows, LATENCIES.values(), x="seconds", y="share of requests ≤ x", share=".2%")
    return Drawing(drawn, "Median latencies: " + ", ".join(medians) + ".")


def hit_ratio(saved: Saved) -> Drawing:
    """Share of requests by the part of their prompt that the source says was cached."""
    bins = saved.rows("value_hist", metric="hit", series="global")
    total = sum(row["count"] for row in bins)
    if not total:
        raise NotDrawn("the trace states no cached tokens")
    tenths = [0] * 11
    for row in bins:
        tenths[min(10, int(row["bin_low"] * 10 + 1e-9)) if row["bin_low"] < 1 else 10] += row["count"]
    names = [f"{i * 10}–{i * 10 + 10}%" for i in range(10)] + ["100%"]
    rows = [{"x": names[i], "y": round(n / total, 6)} for i, n in enumerate(tenths)]
    drawn = (
        chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("x:O", sort=names, title="cached part of the prompt").axis(labelAngle=0),
            y=alt.Y("y:Q", title="share of requests").axis(format="%"),
            tooltip=["x:O", alt.Tooltip("y:Q", format=".1%")],
        )
    )
    says = (
        f"{percent(tenths[0] / total)} of the requests had under 10% of their prompt cached, "
        f"{percent(tenths[10] / total)} all of it."
    )
    return Drawing(drawn, says)


def months(saved: Saved, metric: str) -> Drawing:
    """Median and bands of prompt or answer size by month."""
    by_month: dict[int, list[Row]] = {}
    for row in saved.rows("month_shape", metric=metric):
        by_month.setdefault(int(row["month"]), []).append(row)
    if len(by_month) < 2:
        raise NotDrawn("needs at least 2 calendar months")
    rows = []
    for month in sorted(by_month):
        marks = [quantile(by_month[month], q) for q in QUANTILES]
        rows.append({"month": month, **dict(zip(("p10", "p25", "p50", "p75", "p90"), marks, strict=True))})
    word = {"it": "input", "ot": "output"}[metric]
    low, high = min(row["p10"] for row in rows), max(row["p90"] for row in rows)
    base = chart(rows).encode(
        x=alt.X("month:Q", title="month").axis(format="d", values=sorted(by_month)).scale(nice=False)
    )
    y = (
        alt.Y("p10:Q", title=f"{word} tokens")
        .scale(type="log", nice=False)
        .axis(labelExpr=SHORT, values=ticks(low, high))
    )
    layers = alt.layer(
        base.mark_area(opacity=0.14).encode(y=y, y2="p90:Q"),
        base.mark_area(opacity=0.26).encode(y="p25:Q", y2="p75:Q"),
        base.mark_line(point=True).encode(y="p50:Q", tooltip=["month:Q", "p10:Q", "p50:Q", "p90:Q"]),
    )
    says = f"Median {word} tokens by month: {', '.join(number(row['p50']) for row in rows)}."
    return Drawing(layers, says)
