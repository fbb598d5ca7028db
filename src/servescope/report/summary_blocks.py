"""The findings of a sweep of prefix blocks in plain lines: what was replayed, the knee, advice by type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from servescope.report.charts_block_sample import sampled_points
from servescope.report.charts_blocks import BEST, curve_points, knee
from servescope.report.charts_cache import swept_rows
from servescope.report.figure import NotDrawn, number, percent
from servescope.report.saved import ALL

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

MOST_TYPES = 6
WITHHELD = "advice is withheld"  # in the note that says so, and why
SENTENCES = {
    "session affinity": (
        "sessions carry {share} of what a cache can find: keep the turns of a session together"
    ),
    "cross-request templates": (
        "only {share} of what a cache can find lies within sessions: have shared prefixes everywhere; a "
        "router that knows only sessions misses them"
    ),
    "little to reuse": "a cache can find {found} of the blocks: little to reuse",
}


def block_lines(saved: Saved, model: str, about: Row) -> list[tuple[str, str]]:
    """Label and text of each line about one workload."""
    return [("Workload", _workload(about)), ("Knee", _knee(saved, model)), *_advice(saved, model)]


def report_lines(saved: Saved) -> list[tuple[str, str]]:
    """The knee and advice of a report's own sweep; none where it has no prefix blocks."""
    if saved.has("curve_sample"):
        return sampled_lines(saved)
    if not saved.row("block_workload", model=ALL):
        return []
    return [("Knee", _knee(saved, ALL)), *_advice(saved, ALL)]


def sampled_lines(saved: Saved) -> list[tuple[str, str]]:
    """The knee of a sampled curve."""
    try:
        points, title = sampled_points(saved)
    except NotDrawn as reason:
        return [("Knee", f"not known: {reason}.")]
    bend = knee([(point["x"], point["y"]) for point in points])
    if bend is None:
        return [("Knee", "LRU's sampled curve has no bend.")]
    unit, last = title.partition(", ")[2], points[-1]
    here, end = (
        f"{percent(y)} of the blocks at {number(x)} {unit}" for x, y in (bend, (last["x"], last["y"]))
    )
    error = percent(next(point["high"] - point["y"] for point in points if point["x"] == bend[0]))
    said = f"LRU finds {here} (standard error {error}), {end}, from a sample of the prefix tree."
    return [("Knee", said), ("Advice", "none: it takes all requests, not a sample of them.")]


def _workload(about: Row) -> str:
    text = (
        f"{about['requests']:,} requests, {about['block_references']:,} blocks of {about['block_tokens']:,} "
        f"tokens, {about['distinct_blocks']:,} distinct; a cache without limit would find "
        f"{percent(about['block_hit_ceiling'])} of the blocks and {percent(about['token_hit_ceiling'])} of "
        "the input tokens"
    )
    if about["scope_lost_blocks"]:
        text += f"; cache scopes keep {about['scope_lost_blocks']:,} more apart"
    return text + "."


def _knee(saved: Saved, model: str) -> str:
    try:
        points, title = curve_points(saved, model)
    except NotDrawn as reason:
        return f"not known: {reason}."
    bend = knee(points)
    if bend is None:
        return "LRU's curve has no bend."
    unit = title.partition(", ")[2]
    running = saved.rows("active_kv", model=model)
    held = "what running requests hold on top the trace does not say"
    if running:
        most = max(row["active_tokens_max"] for row in running)
        held = f"running requests hold up to {number(most)} tokens on top"
    here, end = (f"{percent(y)} of the blocks at {number(x)} {unit}" for x, y in (bend, points[-1]))
    return f"LRU finds {here}, {end}; {_clairvoyance(saved, model, bend[0])}{held}."


def _clairvoyance(saved: Saved, model: str, capacity: float) -> str:
    """What the future would be worth at the swept size next to a capacity of the axis; "" if not swept."""
    rows, title = swept_rows(saved, model)
    best = [row for row in rows if row["policy"] == BEST and row["block_hit_ratio"] is not None]
    if not best:
        return ""
    row = min(best, key=lambda row: abs(math.log(row["x"] / capacity)))
    return (
        f"at {number(row['x'])} {title.partition(', ')[2]} knowing the future would find "
        f"{percent(row['block_hit_ratio'])}; "
    )


def _advice(saved: Saved, model: str) -> list[tuple[str, str]]:
    """One sentence a type, heaviest first; none where predictions are far from what was logged."""
    withheld = [note for note in saved.document.get("notes", []) if WITHHELD in note]
    if withheld:
        return [("Advice", f"{withheld[0].rstrip('.')}.")]
    rows = sorted(saved.rows("reuse_advice", model=model), key=lambda row: -row["block_references"])
    typed = [row for row in rows if row["request_type"] != "*"] or rows
    return [(_label(row), _sentence(row)) for row in typed[:MOST_TYPES]]


def _label(row: Row) -> str:
    return "Advice" if row["request_type"] == "*" else f"Advice, {row['request_type']}"


def _sentence(row: Row) -> str:
    share, found = percent(row["same_session_share"]), percent(row["found_ratio"])
    return SENTENCES[row["advice"]].format(share=share, found=found) + "."
