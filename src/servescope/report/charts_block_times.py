"""Figures of what a trace says of its blocks without a policy: when they come back, who is followed up."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import (
    SERIES,
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

SECTION = "When blocks come back"
MOST_TURNS = 20
LEAST_REQUESTS = 10  # of a turn: a share of fewer says nothing
SHORTEST_S = 0.01  # left edge of the axis; shorter times are in its first value


def times(model: str, of: str) -> dict[str, Figure]:
    """Name -> figure of one workload."""
    return {
        "reuse_times": Figure(
            f"Time until a block is used again{of}",
            SECTION,
            "Share of the reuses of prefix blocks within x seconds of the use before, by request type and "
            "turn of that use. Sizes are counted in 100 bins a decade, so a value is good to 2.4%.",
            "Times longer than the rest of the trace cannot be seen, so long ones are under-counted; table "
            "reuse_fit says how well an exponential fits.",
            ("reuse_time",),
            partial(reuse_times, model=model),
        ),
        "next_turns": Figure(
            f"Requests that get a follow-up{of}",
            SECTION,
            "Requests of a turn that another one continues / requests of that turn, by request type.",
            "A follow-up after the end of the trace is not seen. Where no parents are stated they are taken "
            "from the block ids.",
            ("next_turn_probability",),
            partial(next_turns, model=model),
        ),
    }


def _heaviest(totals: dict[str, int]) -> list[str]:
    """The names that get a line: those with most counts, in that order."""
    return sorted(totals, key=lambda name: (-totals[name], name))[:SERIES]


def _left_out(count: int) -> str:
    return f"{count} more lines are in the table." if count > 0 else ""


def reuse_times(saved: Saved, *, model: str) -> Drawing:
    """Cumulative shares of reuse times, a line a category."""
    rows = saved.rows("reuse_time", model=model)
    bins: dict[str, list[Row]] = {}
    for row in rows:
        bins.setdefault(str(row["category"]), []).append(row)
    totals = {name: sum(row["count"] for row in own) for name, own in bins.items() if name != ALL}
    totals = totals or {name: sum(row["count"] for row in own) for name, own in bins.items()}
    if not any(totals.values()):
        raise NotDrawn("no block is used twice")
    names = _heaviest(totals)
    points = [point for name in names for point in _shares(name, bins[name], totals[name])]
    high = max(point["x"] for point in points)
    x = alt.X("x:Q", title="seconds since the use before").scale(type="log", nice=False)
    drawn = (
        chart(points)
        .mark_line(interpolate="step-after")
        .encode(
            x=x.axis(values=ticks(min(point["x"] for point in points), high), format="~g"),
            y=alt.Y("y:Q", title="share of reuses").axis(format="%").scale(domain=[0, 1]),
            color=colour(names),
            tooltip=["series:N", alt.Tooltip("x:Q", format=",.3~g"), alt.Tooltip("y:Q", format=".1%")],
        )
    )
    half = next(point["x"] for point in points if point["series"] == names[0] and point["y"] >= 0.5)
    says = f"Half of the reuses after {names[0]} come within {number(half)} seconds."
    return Drawing(drawn, says, _left_out(len(totals) - len(names)))


def _shares(name: str, rows: Sequence[Row], total: int) -> list[Row]:
    """Points at the upper edges of the bins, no two closer than a pixel."""
    ordered = sorted(rows, key=lambda row: row["bin_low"])
    sums = accumulate(row["count"] for row in ordered)
    shares = {
        max(SHORTEST_S, float(f"{row['bin_high']:.3g}")): round(so_far / total, 5)
        for row, so_far in zip(ordered, sums, strict=True)
    }
    return [{"x": x, "y": y, "series": name} for x, y in shares.items()]


def next_turns(saved: Saved, *, model: str) -> Drawing:
    """Probability of a follow-up by turn, a line a type."""
    rows = [row for row in saved.rows("next_turn_probability", model=model) if row["turn"] <= MOST_TURNS]
    typed = [row for row in rows if row["request_type"] not in (None, ALL)]
    rows = [row for row in typed or rows if row["requests"] >= LEAST_REQUESTS]
    if not rows:
        raise NotDrawn(f"no turn has {LEAST_REQUESTS} requests")
    totals: dict[str, int] = {}
    for row in rows:
        label = _label(row)
        totals[label] = totals.get(label, 0) + row["requests"]
    names = _heaviest(totals)
    points = [
        {"x": row["turn"], "y": row["probability"], "series": _label(row), "requests": row["requests"]}
        for row in rows
        if _label(row) in names
    ]
    drawn = (
        chart(points)
        .mark_line(point={"size": 24})
        .encode(
            x=alt.X("x:Q", title="turn").axis(tickMinStep=1, format="d"),
            y=alt.Y("y:Q", title="share that is followed up").axis(format="%").scale(domain=[0, 1]),
            color=colour(names),
            tooltip=[
                "series:N",
                alt.Tooltip("x:Q", title="turn"),
                alt.Tooltip("y:Q", format=".1%"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
    )
    first = next(point for point in points if point["series"] == names[0])
    says = f"Of the requests of {names[0]} at turn {first['x']}, {percent(first['y'])} are followed up."
    remark = f"Turns up to {MOST_TURNS} with at least {LEAST_REQUESTS} requests. "
    return Drawing(drawn, says, (remark + _left_out(len(totals) - len(names))).strip())


def _label(row: Row) -> str:
    return "all requests" if row["request_type"] in (None, ALL) else str(row["request_type"])
