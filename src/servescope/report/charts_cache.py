"""Figures of a sweep of caches, a set for each workload: hit ratios by capacity, distance to the bound."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import (
    HEIGHT,
    SERIES,
    SHORT,
    Drawing,
    Figure,
    NotDrawn,
    chart,
    colour,
    number,
    percent,
    ticks,
)
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.report.saved import Saved

    Row = dict[str, Any]

GIB = 2**30
LRU, BOUND = "lru", "bound"
TALL = HEIGHT + 60  # of a figure with many lines
MOST_MODELS = 4
CURVE_POINTS = 500
LOWEST = -1.0  # of the distance to the bound, in its figure
SECTION = "Hit ratio by capacity"
CELLS_LIMIT = (
    "One cache for all requests, each finished before the next: no instances, no queueing, nothing in "
    "flight. Where sessions are rebuilt, so is what can be reused."
)
CREDITS = {
    "prompt": "a hit counts the whole prompt, the new part of it too",
    "prefix": "a hit counts at most input and output of the request that it continues",
}


def models(saved: Saved) -> list[str]:
    """Workloads of the sweep, in the order of its rows."""
    return list(dict.fromkeys(str(row["model"]) for row in saved.rows("cache")))


def figures(saved: Saved) -> dict[str, Figure]:
    """The figures that this result asks for: a set for each of the first workloads."""
    made: dict[str, Figure] = {}
    names = models(saved)[:MOST_MODELS]
    for workload in dict.fromkeys(row["workload"] for row in saved.rows("reproduce")):
        made[f"reproduced_{workload}"] = _reproduced(str(workload))
    for place, model in enumerate(names):
        end = "" if place == 0 else f"_{place + 1}"
        of = "" if model == ALL else f", {model}"
        for name, figure in _set(model, of).items():
            made[name + end] = figure
    return made


def _reproduced(workload: str) -> Figure:
    return Figure(
        f"Published and ours, {workload}",
        "Published beside ours",
        "Token hit ratio (1 - byte miss ratio, the whole prompt credited) at the study's shares of the "
        "working set: lines are ours, diamonds are published.",
        "Where the trace is not the study's, the two are different traffic; the table `reproduce` says why a "
        "row differs, where it is known. Published numbers: arXiv 2608.13573, CC BY 4.0.",
        ("reproduce",),
        partial(published_beside, workload=workload),
    )


def _set(model: str, of: str) -> dict[str, Figure]:
    """Name -> figure of one workload."""
    return {
        "token_hit_ratio": Figure(
            f"Token hit ratio{of}",
            SECTION,
            "Tokens credited to hits / input tokens, after the warm-up, by capacity. Shaded: from the "
            "lowest to the highest policy that ties with LRU, that is, whose difference has 0 within its "
            "bootstrap interval over users. Dashed: the bound, which no policy can pass.",
            CELLS_LIMIT,
            ("cache",),
            partial(ratios, model=model, metric="token_hit_ratio"),
        ),
        "bound_distance": Figure(
            f"Distance to the bound{of}",
            SECTION,
            "(Hit tokens of a policy - those of LRU) / (those of the bound - those of LRU): 0 is LRU, 1 "
            "is what no policy can pass.",
            "The bound is fractional and may lie above what any policy can reach. Where it nearly meets "
            "LRU the quotient is large and says little.",
            ("cache",),
            partial(distances, model=model),
        ),
        "request_hit_ratio": Figure(
            f"Request hit ratio{of}",
            SECTION,
            "Requests whose session was in the cache / requests, after the warm-up; shading and dashes as "
            "above, of this ratio.",
            CELLS_LIMIT + " A hit on a short prompt counts as one on a long prompt.",
            ("cache",),
            partial(ratios, model=model, metric="request_hit_ratio"),
        ),
        "lru_curve": Figure(
            f"LRU at every capacity{of}",
            SECTION,
            "Token hit ratio of LRU from reuse distances in tokens, exact from the largest prompt on; "
            "dots are replays at single capacities.",
            CELLS_LIMIT,
            ("curve", "cache"),
            partial(whole_curve, model=model),
        ),
    }


def shown_policies(rows: Sequence[Row]) -> tuple[list[str], str]:
    """Policies that get a line, in the order of the table, and a remark on the others."""
    names = [name for name in dict.fromkeys(str(row["policy"]) for row in rows) if name != BOUND]
    if len(names) <= SERIES:
        return names, ""
    kept = sorted({*names[:SERIES], LRU} & set(names), key=names.index)
    kept = kept if len(kept) <= SERIES else [*names[: SERIES - 1], LRU]
    return kept, f"{len(names) - len(kept)} more policies are in the table."


def capacity_axis(rows: Sequence[Row]) -> tuple[str, float, str]:
    """Column of the capacity, what it is divided by, and the title of the axis."""
    if all(row["capacity_bytes"] is not None for row in rows):
        return "capacity_bytes", GIB, "capacity, GiB"
    return "capacity_tokens", 1, "capacity, tokens"


def swept_rows(saved: Saved, model: str) -> tuple[list[Row], str]:
    """Rows with a capacity above 0 and its place `x` on the axis; the title of the axis."""
    rows = [row for row in saved.rows("cache", model=model) if row["capacity_tokens"]]
    if not rows:
        raise NotDrawn("no capacity above 0 was swept")
    column, unit, title = capacity_axis(rows)
    return [{**row, "x": row[column] / unit} for row in rows], title


def capacity_x(rows: Sequence[Row], title: str) -> alt.X:
    low, high = min(row["x"] for row in rows), max(row["x"] for row in rows)
    values = ticks(low, high) or [low]
    return alt.X("x:Q", title=title).scale(type="log", nice=False).axis(values=values, labelExpr=SHORT)


def _tie_band(saved: Saved, model: str, metric: str, rows: Sequence[Row]) -> list[Row]:
    """From the lowest to the highest policy that ties with LRU, itself included, by capacity."""
    if all(row["policy"] != LRU for row in rows):
        return []
    tied = [
        row
        for row in saved.rows("policy_differences", model=model, metric=metric, policy_b=LRU)
        if row["tie"]
    ]
    found = []
    for tokens in dict.fromkeys(row["capacity_tokens"] for row in rows):
        here = {LRU, *(row["policy_a"] for row in tied if row["capacity_tokens"] == tokens)}
        cells = [row for row in rows if row["capacity_tokens"] == tokens and row["policy"] in here]
        values = [row[metric] for row in cells if row[metric] is not None]
        if values:
            found.append({"x": cells[0]["x"], "low": min(values), "high": max(values)})
    return found


def ratios(saved: Saved, *, model: str, metric: str) -> Drawing:
    """A hit ratio by capacity, one line a policy; ties with LRU shaded, the bound dashed."""
    rows, title = swept_rows(saved, model)
    rows = [row for row in rows if row[metric] is not None]
    if not rows:
        raise NotDrawn("no request was counted")
    names, remark = shown_policies(rows)
    lines = [
        {"x": row["x"], "y": round(row[metric], 6), "series": row["policy"]}
        for row in rows
        if row["policy"] in names
    ]
    name = metric.replace("_", " ")
    y = alt.Y("y:Q", title=name).axis(format="%").scale(domain=[0, 1])
    tips = ["series:N", alt.Tooltip("x:Q", title=title, format=",.4~g"), alt.Tooltip("y:Q", format=".2%")]
    layers: list[Any] = []
    band = _tie_band(saved, model, metric, rows)
    if band:
        area = chart(band, TALL).mark_area(opacity=0.14, style="middle")
        layers.append(area.encode(x=capacity_x(rows, title), y=alt.Y("low:Q", title=name), y2="high:Q"))
    base = chart(lines, TALL).encode(x=capacity_x(rows, title), y=y)
    layers.append(base.mark_line(point={"size": 22}).encode(color=colour(names), tooltip=tips))
    bound = [{"x": row["x"], "y": row[metric], "series": BOUND} for row in rows if row["policy"] == BOUND]
    if bound:
        dashed = chart(bound, TALL).mark_line(style="reference", strokeDash=[5, 4])
        layers.append(dashed.encode(x=capacity_x(rows, title), y=y, tooltip=tips))
    credit = rows[0]["credit"]
    said = (
        f"Credit {credit}: {CREDITS[credit]}. " if metric == "token_hit_ratio" and credit in CREDITS else ""
    )
    return Drawing(alt.layer(*layers), _says(rows, metric), f"{said}{remark}".strip())


def _says(rows: Sequence[Row], metric: str) -> str:
    """The middle capacity in words: the best policy, LRU, the bound."""
    sizes = sorted({row["capacity_tokens"] for row in rows})
    middle = sizes[len(sizes) // 2]
    here = {row["policy"]: row[metric] for row in rows if row["capacity_tokens"] == middle}
    own = {name: value for name, value in here.items() if name != BOUND}
    best = max(own, key=lambda name: float(own[name])) if own else None
    text = f"At {number(middle)} tokens"
    parts = [f"{best} reaches {percent(own[best])}"] if best else []
    parts += [f"{name} {percent(here[name])}" for name in (LRU, BOUND) if name in here and name != best]
    return f"{text} {', '.join(parts)}."


def distances(saved: Saved, *, model: str, best: str = BOUND) -> Drawing:
    """How much of the way from LRU to the bound, or another that none passes, each policy goes."""
    rows, title = swept_rows(saved, model)
    rows = [row for row in rows if row["distance_to_bound"] is not None and row["policy"] != best]
    if all(row["policy"] == LRU for row in rows):
        raise NotDrawn(f"it needs lru, {best} and another policy in one sweep, and {best} above LRU")
    names, remark = shown_policies(rows)
    lines = [
        {"x": row["x"], "y": round(row["distance_to_bound"], 6), "series": row["policy"]}
        for row in rows
        if row["policy"] in names
    ]
    deep = min(row["y"] for row in lines) < LOWEST
    scale = alt.Scale(domain=[LOWEST, 1.0]) if deep else alt.Scale()
    if deep:
        remark = f"Cut off below {percent(LOWEST)}; the table has the rest. {remark}".strip()
    drawn = (
        chart(lines)
        .mark_line(point={"size": 22}, clip=True)
        .encode(
            x=capacity_x(rows, title),
            y=alt.Y("y:Q", title=f"share of the way from LRU to {best}", scale=scale).axis(format=".0%"),
            color=colour(names),
            tooltip=[
                "series:N",
                alt.Tooltip("x:Q", title=title, format=",.4~g"),
                alt.Tooltip("y:Q", format=".1%"),
            ],
        )
    )
    marks = chart([{"y": 0.0}, {"y": 1.0}]).mark_rule(style="reference").encode(y="y:Q")
    others = [row for row in lines if row["series"] != LRU]
    top = max(others, key=lambda row: row["y"])
    worst = min(others, key=lambda row: row["y"])
    says = (
        f"Between LRU (0%) and {best} (100%): highest {top['series']} with {percent(top['y'])}, lowest "
        f"{worst['series']} with {percent(worst['y'])}."
    )
    return Drawing(alt.layer(marks, drawn), says, remark)


def whole_curve(saved: Saved, *, model: str) -> Drawing:
    """LRU's curve as steps, and the replays where reuse distances do not decide."""
    total = saved.row("cache", model=model).get("input_tokens")
    rows = saved.rows("curve", model=model)
    exact = [row for row in rows if row["method"] == "reuse_distance" and row["capacity_tokens"]]
    if not total or not (exact or rows):
        raise NotDrawn("no request was counted")
    step = max(1, len(exact) // CURVE_POINTS)
    thinned = [*exact[::step], *exact[-1:]] if exact else []
    points = [
        {"x": row["capacity_tokens"], "y": round(row["hit_tokens"] / total, 6), "series": row["method"]}
        for row in (*thinned, *(row for row in rows if row["method"] == "replay" and row["capacity_tokens"]))
    ]
    if not points:
        raise NotDrawn("no capacity above 0 was swept")
    base = chart(points).encode(
        x=capacity_x(points, "capacity, tokens"),
        y=alt.Y("y:Q", title="token hit ratio").axis(format="%").scale(domain=[0, 1]),
        tooltip=[alt.Tooltip("x:Q", format=",.0f"), alt.Tooltip("y:Q", format=".2%")],
    )
    line = base.transform_filter(alt.datum.series == "reuse_distance").mark_line(interpolate="step-after")
    dots = base.transform_filter(alt.datum.series == "replay").mark_point(filled=True, size=24)
    top = max(point["y"] for point in points)
    says = f"LRU reaches {percent(top)} of input tokens with enough capacity."
    remark = f"One point in {step:,} is drawn." if step > 1 else ""
    return Drawing(alt.layer(line, dots), says, remark)


def published_beside(saved: Saved, *, workload: str) -> Drawing:
    """The published token hit ratios of a workload, and ours at the same shares."""
    rows = saved.rows("reproduce", workload=workload)
    names, remark = shown_policies(rows)
    rows = [row for row in rows if row["policy"] in names]
    both = (("published_byte_miss_ratio", "published"), ("byte_miss_ratio", "ours"))
    points = [
        {"x": row["capacity_share"], "y": round(1 - row[column], 6), "series": row["policy"], "whose": whose}
        for row in rows
        for column, whose in both
        if row[column] is not None
    ]
    if all(point["whose"] == "published" for point in points):
        raise NotDrawn("nothing of this workload was run here")
    share = alt.X("x:Q", title="capacity, share of the working set").scale(type="log", nice=False)
    base = chart(points, TALL).encode(
        x=share.axis(values=ticks(1e-5, 1e-2), format="~%"),
        y=alt.Y("y:Q", title="token hit ratio").axis(format="%").scale(domain=[0, 1]),
        color=colour(names),
        tooltip=["series:N", "whose:N", alt.Tooltip("x:Q", format=".3%"), alt.Tooltip("y:Q", format=".2%")],
    )
    lines = base.transform_filter(alt.datum.whose == "ours").mark_line(point={"size": 18})
    marks = base.transform_filter(alt.datum.whose == "published").mark_point(shape="diamond", size=46)
    off = [
        abs(row["byte_miss_ratio_deviation"]) for row in rows if row["byte_miss_ratio_deviation"] is not None
    ]
    says = f"{len(off)} published rows run here differ by {percent(sum(off) / len(off))} on average."
    return Drawing(alt.layer(lines, marks), says, remark)
