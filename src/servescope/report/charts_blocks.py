"""Figures of a sweep of prefix blocks: the hit curve with its knee, policies, what evictions cost."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.charts_block_reuse import where
from servescope.report.charts_block_times import times
from servescope.report.charts_cache import (
    GIB,
    LRU,
    MOST_MODELS,
    TALL,
    capacity_axis,
    capacity_x,
    distances,
    models,
    shown_policies,
    swept_rows,
)
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, colour, number, percent
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.report.saved import Saved

    Row = dict[str, Any]

BEST = "belady_bypass"
CURVE_POINTS = 500
CURVE = "Hit curve"
LIMIT = (
    "One cache for all requests: no instances and no queueing. Without --pin nobody holds blocks while "
    "running, so capacities that running requests take up are overstated."
)


def figures(saved: Saved) -> dict[str, Figure]:
    """The figures that this result asks for: a set for each of the first workloads."""
    made: dict[str, Figure] = {}
    for place, model in enumerate(models(saved)[:MOST_MODELS]):
        end = "" if place == 0 else f"_{place + 1}"
        of = "" if model == ALL else f", {model}"
        own = {**_curves(model, of), **where(model, of), **times(model, of)}
        made |= {name + end: figure for name, figure in own.items()}
    return made


def _curves(model: str, of: str) -> dict[str, Figure]:
    return {
        "block_hit_curve": Figure(
            f"Block hit ratio by capacity{of}",
            CURVE,
            "Blocks found from the start of their prompt / block references, after the warm-up. Line: LRU, "
            "exact at every capacity. Dots: the policies of the sweep. Dashed: belady_bypass, which knows "
            "the future and which no policy passes. Rule: the knee, where LRU's curve stands highest above "
            "the straight line between its ends (capacity logarithmic).",
            LIMIT,
            ("curve", "cache"),
            partial(hit_curve, model=model),
        ),
        "block_policies": Figure(
            f"Policies beside LRU{of}",
            CURVE,
            "Block hit ratio of a policy minus that of LRU at the same capacity.",
            LIMIT
            + " A small difference can be a tie: `servescope cache` gives intervals (policy_differences).",
            ("cache",),
            partial(beside_lru, model=model),
        ),
        "clairvoyance_distance": Figure(
            f"Distance to clairvoyance{of}",
            CURVE,
            "(Block hits of a policy - those of LRU) / (those of belady_bypass - those of LRU): 0 is LRU, 1 "
            "is what no policy can pass.",
            "Where the two nearly meet the quotient is large and says little.",
            ("cache",),
            partial(distances, model=model, best=BEST),
        ),
        "recomputed": Figure(
            f"What evictions cost{of}",
            CURVE,
            "Input tokens that an unlimited cache would have found and this one computes again / input "
            "tokens, after the warm-up.",
            LIMIT,
            ("cache_by_category", "cache"),
            partial(recomputed, model=model),
        ),
    }


def knee(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The point of a rising curve that stands highest above its chord, capacity logarithmic; None: no bend.

    points  (capacity above 0, ratio), capacities rising

    >>> knee([(1, 0.0), (10, 0.9), (100, 1.0)])
    (10, 0.9)
    """
    if len(points) < 3:
        return None
    (first, low), (last, high) = points[0], points[-1]
    width, height = math.log(last / first), high - low
    if width <= 0 or height <= 0:
        return None

    def above(point: tuple[float, float]) -> float:
        return (point[1] - low) / height - math.log(point[0] / first) / width

    best = max(points, key=above)
    return best if above(best) > 0.01 else None


def curve_points(saved: Saved, model: str) -> tuple[list[tuple[float, float]], str]:
    """LRU's curve as (capacity on the axis, block hit ratio), thinned, and the title of the axis."""
    rows = saved.rows("cache", model=model)
    total = rows[0]["block_references"] if rows else 0
    curve = _thinned(saved, model)
    if not total or not curve:
        raise NotDrawn("no block was counted")
    column, unit, title = capacity_axis(rows)
    token = 1.0 / unit
    if column == "capacity_bytes":
        known = next((row for row in rows if row["capacity_tokens"]), None)
        token = 1.0 if known is None else known["capacity_bytes"] / known["capacity_tokens"] / GIB
    return [(row["capacity_tokens"] * token, row["block_hits"] / total) for row in curve], title


def _thinned(saved: Saved, model: str) -> list[Row]:
    """Rows of table `curve` above capacity 0, even steps apart on a logarithmic axis, and the last one.

    A long trace has millions: they are thinned before they become Python's.
    """
    if not saved.has("curve"):
        return []
    data = saved.arrow("curve")
    data = data.filter(pc.and_(pc.equal(data["model"], model), pc.greater(data["capacity_blocks"], 0)))
    if data.num_rows <= CURVE_POINTS:
        return data.to_pylist()  # type: ignore[no-any-return]
    sizes = data["capacity_blocks"].to_numpy()
    wanted = np.geomspace(sizes[0], sizes[-1], CURVE_POINTS)
    places = np.unique(np.append(np.searchsorted(sizes, wanted, side="right") - 1, len(sizes) - 1))
    return data.take(places[places >= 0]).to_pylist()  # type: ignore[no-any-return]


def hit_curve(saved: Saved, *, model: str) -> Drawing:
    """LRU's exact curve with its knee, the policies as dots, clairvoyance dashed."""
    points, title = curve_points(saved, model)
    rows, _ = swept_rows(saved, model)
    names, remark = shown_policies([row for row in rows if row["policy"] != BEST])
    names = names if LRU in names else [*names, LRU]
    line = [{"x": x, "y": round(y, 6), "series": LRU} for x, y in points]
    dots = [
        {"x": row["x"], "y": round(row["block_hit_ratio"], 6), "series": row["policy"]}
        for row in rows
        if row["policy"] in names and row["block_hit_ratio"] is not None
    ]
    best = [{"x": row["x"], "y": row["block_hit_ratio"]} for row in rows if row["policy"] == BEST]
    x = capacity_x([*line, *dots, *best], title)
    y = alt.Y("y:Q", title="block hit ratio").axis(format="%")
    tips = [alt.Tooltip("x:Q", title=title, format=",.4~g"), alt.Tooltip("y:Q", format=".2%")]
    layers: list[Any] = [
        chart(line, TALL).mark_line(interpolate="step-after").encode(
            x=x, y=y, color=colour(names), tooltip=tips
        ),
        chart(dots, TALL).mark_point(filled=True, size=36).encode(
            x=x, y=y, color=colour(names), tooltip=["series:N", *tips]
        ),
    ]  # fmt: skip
    if best:
        dashed = chart(best, TALL).mark_line(style="reference", strokeDash=[5, 4])
        layers.append(dashed.encode(x=x, y=y, tooltip=tips))
    bend = knee(points)
    says = f"LRU reaches {percent(points[-1][1])} of the blocks with enough capacity"
    if bend is not None:
        layers.append(chart([{"x": bend[0]}], TALL).mark_rule(style="reference").encode(x=x))
        says += f"; the knee lies at {number(bend[0])} ({title.partition(', ')[2]}) with {percent(bend[1])}"
    return Drawing(alt.layer(*layers), says + ".", remark)


def _against_lru(rows: Sequence[Row]) -> list[Row]:
    own = {row["capacity_tokens"]: row["block_hit_ratio"] for row in rows if row["policy"] == LRU}
    return [
        {"x": row["x"], "y": row["block_hit_ratio"] - own[row["capacity_tokens"]], "series": row["policy"]}
        for row in rows
        if row["policy"] not in (LRU, BEST) and own.get(row["capacity_tokens"]) is not None
    ]  # fmt: skip


def beside_lru(saved: Saved, *, model: str) -> Drawing:
    """Differences of every policy to LRU."""
    rows, title = swept_rows(saved, model)
    found = _against_lru(rows)
    if not found:
        raise NotDrawn("it needs lru and another policy in one sweep")
    names, remark = shown_policies([{"policy": row["series"]} for row in found])
    found = [row for row in found if row["series"] in names]
    title_y = "block hit ratio minus LRU's"
    if len(names) == 1:  # a single line has no legend
        title_y = f"block hit ratio, {names[0]} minus LRU"
    drawn = (
        chart(found, TALL)
        .mark_line(point={"size": 22})
        .encode(
            x=capacity_x(found, title),
            y=alt.Y("y:Q", title=title_y).axis(format="+.1%"),
            color=colour(names),
            tooltip=["series:N", alt.Tooltip("x:Q", format=",.4~g"), alt.Tooltip("y:Q", format="+.2%")],
        )
    )
    zero = chart([{"y": 0.0}], TALL).mark_rule(style="reference").encode(y="y:Q")
    best = max(found, key=lambda row: row["y"])
    says = f"The largest gain over LRU is {best['series']}'s, {percent(best['y'])} of the blocks."
    return Drawing(alt.layer(zero, drawn), says, remark)


def recomputed(saved: Saved, *, model: str) -> Drawing:
    """Tokens lost to evictions by capacity."""
    cells, title = swept_rows(saved, model)
    place = {row["capacity_blocks"]: row["x"] for row in cells}
    sums: dict[tuple[str, int], list[int]] = {}
    for row in saved.rows("cache_by_category", model=model):
        total = sums.setdefault((row["policy"], row["capacity_blocks"]), [0, 0])
        total[0] += row["recomputed_tokens"]
        total[1] += row["input_tokens"]
    found = [
        {"x": place[blocks], "y": round(lost / tokens, 6), "series": policy}
        for (policy, blocks), (lost, tokens) in sums.items()
        if tokens and blocks in place
    ]
    if not found:
        raise NotDrawn("no token was counted")
    names, remark = shown_policies([{"policy": row["series"]} for row in found])
    drawn = (
        chart([row for row in found if row["series"] in names], TALL)
        .mark_line(point={"size": 22})
        .encode(
            x=capacity_x(found, title),
            y=alt.Y("y:Q", title="recomputed / input tokens").axis(format=".0%"),
            color=colour(names),
            tooltip=["series:N", alt.Tooltip("x:Q", format=",.4~g"), alt.Tooltip("y:Q", format=".2%")],
        )
    )
    worst = max(found, key=lambda row: row["y"])
    says = f"At most {percent(worst['y'])} of the input tokens are computed again ({worst['series']})."
    return Drawing(drawn, says, remark)
