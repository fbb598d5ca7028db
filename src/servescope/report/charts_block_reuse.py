"""Figures of a sweep of prefix blocks: where reuse and hits are, what running requests hold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import altair as alt

from servescope.report.charts_cache import LRU
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, colour, number, percent, time_unit
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from servescope.report.saved import Saved

WHERE = "Where hits are"
LISTED = 20  # prefixes that get a bar
POINTS = 500
LIMIT = "At one capacity; the tables hold the others."


def where(model: str, of: str) -> dict[str, Figure]:
    """Name -> figure of one workload."""
    return {
        "reuse_by_type": Figure(
            f"Reuse within sessions and across them{of}",
            WHERE,
            "Leading blocks that an unlimited cache finds, in earlier requests of the same session or only "
            "in others / block references, by request type.",
            "Sessions are stated, or derived from the ids: then a session that repeats nothing is not seen.",
            ("reuse_advice",),
            partial(reuse_by_type, model=model),
        ),
        "hits_by_position": Figure(
            f"Hits by place in the prompt{of}",
            WHERE,
            "Block hit ratio of LRU at the middle capacity, by the index of the block in its prompt.",
            LIMIT,
            ("cache_by_position", "cache"),
            partial(by_position, model=model),
        ),
        "hits_by_category": Figure(
            f"Hits by type and turn{of}",
            WHERE,
            "Block hit ratio of LRU at the middle capacity, by request type and turn; the last turn gathers "
            "the later ones.",
            LIMIT,
            ("cache_by_category", "cache"),
            partial(by_category, model=model),
        ),
        "top_prefixes": Figure(
            f"The prefixes that carry the reuse{of}",
            WHERE,
            "Blocks that an unlimited cache finds along one prefix / all that it finds; prefixes by the "
            "number of their node.",
            "A prefix is a path of block ids; what text it stands for the trace does not say.",
            ("top_prefixes",),
            partial(top_prefixes, model=model),
        ),
        "logged_beside": Figure(
            f"Predicted beside logged hits{of}",
            WHERE,
            "Cached tokens / input tokens by hour of the trace, as the source logged them and as predicted: "
            "whole blocks only, never the last token of a prompt.",
            "One cache for all requests; where the two are more than 5 points apart, advice is withheld.",
            ("trust",),
            partial(logged_beside, model=model),
        ),
        "active_kv": Figure(
            f"KV cache of running requests{of}",
            WHERE,
            "Tokens of the requests that run, prompt and answer so far, mean and greatest value of each "
            "window: what they take of a memory is not left for reuse.",
            "An upper bound: waiting counts as running, and a shared prefix counts once for each request.",
            ("active_kv",),
            partial(active, model=model),
        ),
    }


def reuse_by_type(saved: Saved, *, model: str) -> Drawing:
    """Found blocks by type, split by session."""
    rows = [row for row in saved.rows("reuse_advice", model=model) if row["block_references"]]
    if not rows:
        raise NotDrawn("no block was counted")
    kinds = (("same session", "same_session_blocks"), ("across sessions", "cross_session_blocks"))
    names = ["all" if row["request_type"] == ALL else row["request_type"] for row in rows]
    found = [
        {"type": label, "y": row[column] / row["block_references"], "series": name}
        for label, row in zip(names, rows, strict=True)
        for name, column in kinds
    ]
    drawn = (
        chart(found, 40 + 28 * len(rows))
        .mark_bar()
        .encode(
            y=alt.Y("type:N", title=None, sort=names),
            x=alt.X("y:Q", title="found / block references").axis(format="%"),
            color=colour([name for name, _ in kinds]),
            tooltip=["type:N", "series:N", alt.Tooltip("y:Q", format=".1%")],
        )
    )
    said = ", ".join(f"{label}: {row['advice']}" for label, row in zip(names, rows, strict=True))
    says = f"{said}; of all blocks {percent(rows[0]['found_ratio'])} are found"
    return Drawing(drawn, says + ".")


def _middle(saved: Saved, model: str) -> tuple[int, str]:
    """The middle capacity of the sweep in blocks, and a remark that says it. It needs LRU."""
    rows = [row for row in saved.rows("cache", model=model) if row["policy"] == LRU]
    sizes = sorted({row["capacity_blocks"] for row in rows if row["capacity_blocks"]})
    if not sizes:
        raise NotDrawn("it needs lru at a capacity above 0")
    middle = sizes[len(sizes) // 2]
    return middle, f"At {middle:,} blocks."


def by_position(saved: Saved, *, model: str) -> Drawing:
    """LRU's hits by block index."""
    blocks, remark = _middle(saved, model)
    rows = saved.rows("cache_by_position", model=model, policy=LRU, capacity_blocks=blocks)
    found = [
        {
            "place": f"{row['position_low']:,}"
            if row["position_low"] == row["position_high"]
            else f"{row['position_low']:,}-{row['position_high']:,}",
            "y": row["block_hit_ratio"],
        }
        for row in rows
        if row["block_hit_ratio"] is not None
    ]
    if not found:
        raise NotDrawn("no block was counted")
    drawn = (
        chart(found)
        .mark_bar()
        .encode(
            x=alt.X("place:N", title="index of the block", sort=None).axis(labelAngle=-40),
            y=alt.Y("y:Q", title="block hit ratio").axis(format="%"),
            tooltip=["place:N", alt.Tooltip("y:Q", format=".1%")],
        )
    )
    says = f"First blocks hit in {percent(found[0]['y'])}, the last bin in {percent(found[-1]['y'])}."
    return Drawing(drawn, says, remark)


def by_category(saved: Saved, *, model: str) -> Drawing:
    """LRU's hits by type and turn."""
    blocks, remark = _middle(saved, model)
    rows = saved.rows("cache_by_category", model=model, policy=LRU, capacity_blocks=blocks)
    found = [
        {"name": row["category"], "y": row["block_hit_ratio"]} for row in rows if row["block_references"]
    ]
    if not found:
        raise NotDrawn("no block was counted")
    drawn = (
        chart(found, 40 + 22 * len(found))
        .mark_bar()
        .encode(
            y=alt.Y("name:N", title="type and turn", sort=None),
            x=alt.X("y:Q", title="block hit ratio").axis(format="%"),
            tooltip=["name:N", alt.Tooltip("y:Q", format=".1%")],
        )
    )
    best = max(found, key=lambda row: row["y"])
    return Drawing(drawn, f"{best['name']} hits most: {percent(best['y'])} of its blocks.", remark)


def top_prefixes(saved: Saved, *, model: str) -> Drawing:
    """Shares of the heaviest prefixes."""
    rows = saved.rows("top_prefixes", model=model)[:LISTED]
    if not rows:
        raise NotDrawn("no prefix is found twice")
    found = [
        {
            "name": f"node {row['node']}, {row['depth_blocks']} blocks",
            "y": row["share_of_hit_blocks"],
            "uses": row["uses"],
        }
        for row in rows
    ]
    drawn = (
        chart(found, 40 + 18 * len(found))
        .mark_bar()
        .encode(
            y=alt.Y("name:N", title=None, sort=None),
            x=alt.X("y:Q", title="share of all found blocks").axis(format=".1%"),
            tooltip=["name:N", "uses:Q", alt.Tooltip("y:Q", format=".2%")],
        )
    )
    return Drawing(drawn, f"The heaviest prefix carries {percent(found[0]['y'])} of the reuse.")


def active(saved: Saved, *, model: str) -> Drawing:
    """Tokens of running requests over time."""
    rows = saved.rows("active_kv", model=model)
    if not rows:
        raise NotDrawn("no request states its end")
    unit, seconds = time_unit(rows[-1]["start_s"])
    step = max(1, len(rows) // POINTS)
    found = [
        {"x": row["start_s"] / seconds, "y": row[column], "series": name}
        for row in rows[::step]
        for name, column in (("mean", "active_tokens_mean"), ("greatest", "active_tokens_max"))
    ]
    drawn = (
        chart(found)
        .mark_line()
        .encode(
            x=alt.X("x:Q", title=f"{unit} since the first request"),
            y=alt.Y("y:Q", title="tokens held by running requests").axis(format="~s"),
            color=colour(["mean", "greatest"]),
        )
    )
    most = max(row["active_tokens_max"] for row in rows)
    remark = f"One window in {step:,} is drawn." if step > 1 else ""
    return Drawing(drawn, f"Running requests hold up to {number(most)} tokens.", remark)


def logged_beside(saved: Saved, *, model: str) -> Drawing:
    """Predicted and logged token hit ratios by hour of the trace."""
    rows = saved.rows("trust", model=model, dimension="hour")
    if not rows:
        raise NotDrawn("no request states its cached tokens")
    judged = rows[-1]["prediction"]
    rows = sorted((row for row in rows if row["prediction"] == judged), key=lambda row: int(row["value"]))
    first = int(rows[0]["value"])
    found = [
        {"x": int(row["value"]) - first, "y": row[column], "series": series}
        for row in rows
        for column, series in (("predicted_ratio", "predicted"), ("logged_ratio", "logged"))
        if row[column] is not None
    ]
    drawn = (
        chart(found)
        .mark_line(point={"size": 22})
        .encode(
            x=alt.X("x:Q", title="hours since the first request").axis(tickMinStep=1, format="d"),
            y=alt.Y("y:Q", title="cached / input tokens").axis(format="%"),
            color=colour(["predicted", "logged"]),
            tooltip=["series:N", alt.Tooltip("x:Q", title="hour"), alt.Tooltip("y:Q", format=".2%")],
        )
    )
    whole = saved.row("trust", model=model, dimension="all", prediction=judged)
    says = (
        f"Over the trace {percent(whole['predicted_ratio'])} are predicted and "
        f"{percent(whole['logged_ratio'])} logged."
    )
    return Drawing(drawn, says, f"Prediction: {judged}.")
