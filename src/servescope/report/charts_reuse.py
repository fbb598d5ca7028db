"""Figures of prefix reuse: by type, its ceiling, by place in the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import SERIES, Drawing, NotDrawn, chart, colour, percent
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from servescope.report.saved import Saved

RATIOS = {
    "block_reuse_ratio": "seen anywhere before",
    "prefix_reuse_ratio": "seen as this prefix",
    "parent_match_ratio": "shared with the parent",
}
PLACES = ["seen anywhere before", "seen as this prefix"]
PARTS = {"whole": "whole trace", "last_half": "last half"}
ROOM = {"left": 5, "top": 5, "right": 46, "bottom": 5}  # right of a bar of 100% stands its label
SAME, CROSS, UNSPLIT = "same session", "other sessions", "reused"


def by_type(saved: Saved) -> Drawing:
    """Three ratios of reused blocks beside each other, by type."""
    found = {str(row["request_type"]): row for row in saved.rows("block_reuse")}
    types = [name for name in saved.types() if name in found][:SERIES]
    scopes = [ALL, *types] if len(types) > 1 else [ALL]
    rows: list[dict[str, Any]] = []
    for scope in scopes:
        for column, label in RATIOS.items():
            value = found.get(scope, {}).get(column)
            if value is not None:
                rows.append(
                    {"type": "all" if scope == ALL else scope, "series": label, "value": round(value, 5)}
                )
    if not rows:
        raise NotDrawn("the trace references no blocks")
    labels = [label for label in RATIOS.values() if any(row["series"] == label for row in rows)]
    order = ["all" if scope == ALL else scope for scope in scopes]
    base = chart(rows, max(120, 26 * len(rows))).encode(
        y=alt.Y("type:N", sort=order, title=None).axis(labelLimit=130),
        yOffset=alt.YOffset("series:N", sort=labels),
        x=alt.X("value:Q", title="share of blocks").axis(format="%").scale(domain=[0, 1]),
    )
    bars = base.mark_bar().encode(
        color=colour(labels),
        tooltip=["type:N", "series:N", alt.Tooltip("value:Q", format=".1%")],
    )
    figures = base.mark_text(align="left", dx=4).encode(text=alt.Text("value:Q", format=".1%"))
    drawn = alt.layer(bars, figures)
    says = f"Of {'all' if len(types) > 1 else 'the'} blocks: " + ", ".join(
        f"{percent(found[ALL][column])} {label}"
        for column, label in RATIOS.items()
        if found[ALL][column] is not None
    )
    return Drawing(drawn.properties(padding=ROOM), says + ".")


def ceiling(saved: Saved) -> Drawing:
    """Share of input tokens that an unlimited prefix cache would hold: whole trace and last half."""
    rows: list[dict[str, Any]] = []
    says = []
    for part, label in PARTS.items():
        row = saved.row("reuse_ceiling", part=part)
        total = row.get("input_tokens")
        if not total:
            continue
        share = row["prefix_tokens"] / total
        if row["same_session_tokens"] is None:
            pieces = {UNSPLIT: share}
        else:
            pieces = {SAME: row["same_session_tokens"] / total, CROSS: row["cross_session_tokens"] / total}
        rows += [
            {"part": label, "series": name, "value": round(v, 5), "total": share}
            for name, v in pieces.items()
        ]
        split = (
            ""
            if UNSPLIT in pieces
            else f" ({percent(pieces[SAME])} same session, {percent(pieces[CROSS])} other)"
        )
        says.append(f"{label} {percent(share)}{split}")
    if not rows:
        raise NotDrawn("the trace references no blocks")
    series = [name for name in (SAME, CROSS, UNSPLIT) if any(row["series"] == name for row in rows)]
    base = chart(rows, 150).encode(y=alt.Y("part:N", sort=list(PARTS.values()), title=None))
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title="share of input tokens", stack="zero").axis(format="%").scale(domain=[0, 1]),
        color=colour(series),
        order=alt.Order("series:N", sort="descending"),
        tooltip=["part:N", "series:N", alt.Tooltip("value:Q", format=".1%")],
    )
    totals = base.mark_text(align="left", dx=5).encode(x="total:Q", text=alt.Text("total:Q", format=".1%"))
    remark = "" if UNSPLIT not in series else "The trace states no sessions, so the ceiling is not split."
    return Drawing(
        alt.layer(bars, totals).properties(padding=ROOM),
        "Reuse ceiling: " + ", ".join(says) + ".",
        remark,
    )


def by_position(saved: Saved) -> Drawing:
    """Share of blocks reused by their place in the prompt, for the trace as a whole."""
    found = sorted(saved.rows("reuse_position", request_type=ALL), key=lambda row: int(row["position_low"]))
    rows: list[dict[str, Any]] = []
    order = []
    for row in found:
        if not row["block_references"]:
            continue
        low, high = row["position_low"], row["position_high"]
        place = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        order.append(place)
        for column, label in (
            ("seen_blocks", "seen anywhere before"),
            ("prefix_blocks", "seen as this prefix"),
        ):
            share = row[column] / row["block_references"]
            rows.append(
                {"place": place, "series": label, "value": round(share, 5), "n": row["block_references"]}
            )
    if not rows:
        raise NotDrawn("the trace references no blocks")
    base = chart(rows).encode(
        x=alt.X("place:O", sort=order, title="place of the block in the prompt (0 is the first)").axis(
            labelAngle=0
        ),
        y=alt.Y("value:Q", title="share of blocks").axis(format="%").scale(domain=[0, 1]),
        color=colour(PLACES),
        tooltip=["place:O", "series:N", alt.Tooltip("value:Q", format=".1%"), alt.Tooltip("n:Q", format=",")],
    )
    # where ids are chained the two are one line: the wide one shows behind the other
    wide = base.transform_filter(alt.datum.series == PLACES[0]).mark_line(strokeWidth=6, opacity=0.45)
    fine = base.transform_filter(alt.datum.series == PLACES[1]).mark_line(point={"size": 30})
    first, last = rows[1], rows[-1]
    says = (
        f"Prefix reuse falls from {percent(first['value'])} of first blocks "
        if first["value"] >= last["value"]
        else f"Prefix reuse goes from {percent(first['value'])} of first blocks "
    ) + f"to {percent(last['value'])} at places {last['place']}."
    return Drawing(alt.layer(wide, fine).properties(padding={**ROOM, "right": 24}), says)
