"""Figures of stated sessions: turns, the pause before a follow-up, what a follow-up adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.charts_lengths import exceedance, quantile, reach_chart, reached, thin
from servescope.report.figure import SHORT, Drawing, NotDrawn, chart, dots, number, percent, ticks

if TYPE_CHECKING:
    from servescope.report.saved import Saved

PAUSES = {
    "think_time": "after its end",
    "start_gap": "after its start",
}


def _tail(rows: list[dict[str, Any]], x: str, y: str) -> alt.Chart:
    low, high = min(row["x"] for row in rows), max(row["x"] for row in rows)
    drawn: alt.Chart = (
        chart(rows)
        .mark_line(interpolate="step-before", point=dots(rows))
        .encode(
            x=alt.X("x:Q", title=x)
            .scale(type="log", nice=False)
            .axis(values=ticks(low, high), labelExpr=SHORT),
            y=alt.Y("y:Q", title=y)
            .scale(type="log", nice=False, domainMax=1)
            .axis(values=ticks(min(row["y"] for row in rows), 1), format="~g"),
            tooltip=[alt.Tooltip("x:Q", format=",.0f"), alt.Tooltip("y:Q", format=".4~f")],
        )
    )
    return drawn


def turns(saved: Saved) -> Drawing:
    """Share of sessions with at least so many turns."""
    return turns_of(saved.rows("turns"))


def turns_of(found: list[dict[str, Any]]) -> Drawing:
    """The same from rows of turns and sessions."""
    bins = [{"bin_low": row["turns"], "count": row["sessions"]} for row in found]
    points = thin(exceedance(bins))
    rows = [{"x": x, "y": float(f"{y:.5g}")} for x, y in points]
    if len(rows) < 2:
        raise NotDrawn(f"every session has {number(rows[0]['x'])} {'turn' if rows[0]['x'] == 1 else 'turns'}")
    total = sum(row["count"] for row in bins)
    single = sum(row["count"] for row in bins if row["bin_low"] == 1)
    says = (
        f"{number(total)} sessions; {percent(single / total)} have a single turn, "
        f"the longest has {number(max(row['bin_low'] for row in bins))}."
    )
    return Drawing(_tail(rows, "turns of a session", "share of sessions ≥ x"), says)


def pauses(saved: Saved) -> Drawing:
    """Share of follow-ups that come within a time after their parent's end, and its start."""
    rows: list[dict[str, Any]] = []
    says = []
    for table, name in PAUSES.items():
        bins = saved.rows(table)
        rows += reached(bins, name)
        if total := sum(row["count"] for row in bins):
            says.append(f"{number(quantile(bins, 0.5))} s {name} ({number(total)} follow-ups)")
    if not rows:
        raise NotDrawn("no request in the trace has its parent in the trace")
    if len({row["x"] for row in rows}) < 2:
        raise NotDrawn(f"all pauses fall into one bin, up to {number(rows[0]['x'])} s")
    drawn = reach_chart(
        rows, PAUSES.values(), x="seconds after the parent", y="share of follow-ups ≤ x", share=".1%"
    )
    remark = "" if saved.has("think_time") else "Without the ends of requests only starts can be compared."
    gaps = {row["metric"]: row for row in saved.rows("turn_gap_stats")}
    overlapping = (gaps.get("think_time") or {}).get("overlapping")
    if overlapping:
        remark = f"{number(overlapping)} follow-ups came before their parent ended and are left out."
    return Drawing(drawn, f"A follow-up comes, in the median, {' and '.join(says)}.", remark)


def new_tokens(saved: Saved) -> Drawing:
    """Share of follow-ups that add at least so many tokens to the conversation."""
    bins = saved.rows("new_tokens")
    points = thin(exceedance(bins))
    rows = [{"x": x, "y": float(f"{y:.5g}")} for x, y in points if x > 0]
    if not rows:
        raise NotDrawn("no follow-up adds a known number of tokens")
    if len(rows) < 2:
        raise NotDrawn(f"every follow-up adds about {number(rows[0]['x'])} tokens")
    growth = saved.row("growth")
    says = f"A follow-up adds about {number(quantile(bins, 0.5))} tokens in the median."
    if growth.get("new_tokens") and growth.get("input_tokens"):
        share = growth["new_tokens"] / growth["input_tokens"]
        rest = (
            "repeats the history or is unknown"
            if growth["shortened"] or growth["unknown"]
            else "repeats the history"
        )
        says += f" {percent(share)} of all input tokens of sessions are new; the rest {rest}."
    remark = ""
    if growth.get("shortened"):
        remark = f"{number(growth['shortened'])} follow-ups are shorter than their history and are left out."
    return Drawing(_tail(rows, "new tokens of a follow-up", "share of follow-ups ≥ x"), says, remark)
