"""The table of figures, and the one function that draws all that the saved tables allow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from servescope.report import (
    charts_block_sample,
    charts_blocks,
    charts_cache,
    charts_lengths,
    charts_load,
    charts_models,
    charts_rebuilt,
    charts_reuse,
    charts_sessions,
)
from servescope.report.figure import Drawing, Figure, NotDrawn, unchecked

if TYPE_CHECKING:
    from servescope.report.saved import Saved

SKETCHED = "Sizes are counted in 100 bins a decade, so a value is good to 2.4%."
WINDOWS = "Windows start at the first request; the last one, cut by the end of the trace, is left out."
SEEN_LIMIT = (
    "Reuse is what the trace repeats, not what a cache of finite size would keep, and nothing before the "
    "first request counts as seen."
)

FIGURES: dict[str, Figure] = {
    "arrivals_10s": Figure(
        "Arrivals, windows of 10 s",
        "Load",
        "Requests that arrive in a window / 10 s. " + WINDOWS,
        "Arrivals only: nothing on queueing, failures or how the service answered.",
        ("rate",),
        partial(charts_load.arrivals, window_s=10),
    ),
    "arrivals_300s": Figure(
        "Arrivals, windows of 5 min",
        "Load",
        "Requests that arrive in a window / 300 s. " + WINDOWS,
        "Bursts shorter than a window are averaged away; compare the windows of 10 s.",
        ("rate",),
        partial(charts_load.arrivals, window_s=300),
    ),
    "input_tokens_per_s": Figure(
        "Arriving input tokens",
        "Load",
        "Prompt tokens of the requests that arrive in a window of 300 s / 300 s; types are stacked. "
        + WINDOWS,
        "Prompt tokens as asked for, cached ones included: the prefill work of a service with a prefix cache "
        "is smaller. Requests of unknown length add nothing.",
        ("rate",),
        partial(charts_load.tokens, column="input_tokens"),
    ),
    "output_tokens_per_s": Figure(
        "Arriving output tokens",
        "Load",
        "Tokens later generated for the requests that arrive in a window of 300 s / 300 s; types are "
        "stacked. " + WINDOWS,
        "Booked at the request's arrival: the decode work itself comes later and is spread over time.",
        ("rate",),
        partial(charts_load.tokens, column="output_tokens"),
    ),
    "daily": Figure(
        "Requests per day",
        "Load",
        "All requests by day of the trace clock, stacked by the API that was called.",
        "Days are those of the trace clock; only a trace with calendar time says which days they were.",
        ("load_hour",),
        charts_load.daily,
    ),
    "hour_of_week": Figure(
        "Hours of the week",
        "Load",
        "Requests of an hour, averaged over all weeks of the trace.",
        "A few weeks show a rhythm, not its spread; growth over the trace is averaged in.",
        ("load_hour",),
        charts_load.hour_of_week,
    ),
    "input_ccdf": Figure(
        "Prompt sizes",
        "Sizes",
        "Share of requests with at least so many input tokens; both axes logarithmic. " + SKETCHED,
        "The far tail rests on a handful of requests. A cut-off at the right edge is the service's context "
        "limit or the trace's, not the users' wish.",
        ("length_ccdf",),
        partial(charts_lengths.ccdf, metric="input"),
    ),
    "output_ccdf": Figure(
        "Answer sizes",
        "Sizes",
        "Share of requests with at least so many output tokens; both axes logarithmic. " + SKETCHED,
        "Answers stopped by a limit or by the client count with what they had.",
        ("length_ccdf",),
        partial(charts_lengths.ccdf, metric="output"),
    ),
    "input_months": Figure(
        "Prompt sizes by month",
        "Sizes",
        "Median (line), P25 to P75 and P10 to P90 (bands) of input tokens over requests with both sizes "
        "above 0. " + SKETCHED,
        "The mix of models and users changes with the months; this is not one user's habit.",
        ("month_shape",),
        partial(charts_lengths.months, metric="it"),
    ),
    "output_months": Figure(
        "Answer sizes by month",
        "Sizes",
        "Median (line), P25 to P75 and P10 to P90 (bands) of output tokens over requests with both sizes "
        "above 0. " + SKETCHED,
        "The mix of models and users changes with the months; this is not one user's habit.",
        ("month_shape",),
        partial(charts_lengths.months, metric="ot"),
    ),
    "turns": Figure(
        "Turns of a session",
        "Sessions",
        "Share of sessions with at least so many requests in the trace, the first included; axes "
        "logarithmic.",
        "Sessions that began before the trace or go on after it are counted with the turns inside it.",
        ("turns",),
        charts_sessions.turns,
    ),
    "think_time": Figure(
        "Pause before a follow-up",
        "Sessions",
        "Share of follow-ups within x seconds of their parent, from its end (think time) where the trace has "
        "ends, and from its start.",
        "Pauses longer than the rest of the trace cannot be seen, so long ones are under-counted.",
        ("start_gap",),
        charts_sessions.pauses,
    ),
    "new_tokens": Figure(
        "What a follow-up adds",
        "Sessions",
        "New tokens = input - parent's input - parent's output; share of follow-ups with at least x. "
        + SKETCHED,
        "Where a client shortened its history the difference is unknown and left out.",
        ("new_tokens",),
        charts_sessions.new_tokens,
    ),
    "reuse_ceiling": Figure(
        "Reuse ceiling",
        "Reuse",
        "Input tokens in the leading run of blocks that an earlier request had as the same prefix / all "
        "input tokens, with an unlimited cache. Last half: counted over the later half of the requests, "
        "after the earlier half filled the cache.",
        SEEN_LIMIT,
        ("reuse_ceiling",),
        charts_reuse.ceiling,
    ),
    "block_reuse": Figure(
        "Block reuse by type",
        "Reuse",
        "Seen anywhere before: blocks whose id is in any earlier request. Seen as this prefix: the leading "
        "run already seen as that prefix. Both count, within a type, that type's earlier requests only. "
        "Shared with the parent: leading blocks in common with the stated parent / blocks of follow-ups.",
        SEEN_LIMIT + " The three ratios have different denominators and are never added.",
        ("block_reuse",),
        charts_reuse.by_type,
    ),
    "reuse_position": Figure(
        "Reuse by place in the prompt",
        "Reuse",
        "Share of blocks seen before, by the block's place in its prompt, in bins that double.",
        "Later places are reached by long prompts only: the mix of requests changes along the axis.",
        ("reuse_position",),
        charts_reuse.by_position,
    ),
    "models": Figure(
        "Models",
        "Models and users",
        "Share of requests by model: by day where the trace has at least two, else as a whole.",
        "Requests, not tokens: a model with long prompts weighs more than it seems.",
        ("model_day",),
        charts_models.models,
    ),
    "users": Figure(
        "Heaviest users",
        "Models and users",
        "Users by number of requests: each one's share of all requests, and the shares added up.",
        "A user is the source's key: one person with several keys counts several times, a gateway counts "
        "once.",
        ("user_share",),
        charts_models.users,
    ),
    "latency": Figure(
        "Latency",
        "Service",
        "Share of requests at or below x seconds, over requests with a time to first token and an end. "
        + SKETCHED,
        "Time to first token includes queueing. Requests without one (not streamed, failed) are not in it.",
        ("value_hist",),
        charts_lengths.latency,
    ),
    "cached_share": Figure(
        "Cached part of the prompt",
        "Service",
        "Cached tokens as the source reports them / input tokens, by request.",
        "What the service did with its cache, not what was possible: compare the reuse ceiling.",
        ("value_hist",),
        charts_lengths.hit_ratio,
    ),
}


BECAUSE: dict[str, tuple[str, str]] = {
    "turns": ("session_id", "the trace states no sessions"),
    "start_gap": ("parent_id", "the trace states no parent of a request"),
    "new_tokens": ("parent_id", "the trace states no parent of a request"),
    "reuse_ceiling": ("block_ids", "the trace has no prefix blocks"),
    "block_reuse": ("block_ids", "the trace has no prefix blocks"),
    "reuse_position": ("block_ids", "the trace has no prefix blocks"),
    "user_share": ("user", "the trace states no users"),
    "length_ccdf": ("input_tokens", "the trace states no token counts"),
    "rate": ("arrival_us", "the trace states no arrival times"),
    "load_hour": ("arrival_us", "the trace states no arrival times"),
    "shape_cell": ("output_tokens", "the trace does not state the tokens of both sides"),
    "hit_cell": ("cached_tokens", "the trace states no cached tokens"),
    "trust": ("cached_tokens", "the trace states no cached tokens"),
    "active_kv": ("completed_us", "the trace states no completion times"),
    "user_stats": ("user", "the trace states no users"),
    "user_month_gap": ("user", "the trace states no users"),
    "pair_count": ("user", "the trace states no users"),
    "pair_gap": ("user", "the trace states no users"),
    "pair_gap_hist": ("user", "the trace states no users"),
    "model_stats": ("model", "the trace states no models"),
    "model_gap": ("model", "the trace states no models"),
    "model_gap_pair": ("model", "the trace states no models"),
    "model_hour": ("model", "the trace states no models"),
    "instance_minute": ("instance", "the trace states no serving instances"),
    "load_latency_cell": ("instance", "the trace states no serving instances"),
    "user_hour_instance": ("instance", "the trace states no serving instances"),
    "raster_rows": ("user", "the trace states no users"),
}  # table -> the column it needs, and what to say where the source lacks it


EMPTY = {
    "raster_rows": "no user or model of the asked ranks or names has requests in the raster window",
    "user_hour_instance": "no user has an hour of at least 200 requests to a balance model with 40% of the "
    "input cached",
    "instance_minute": "no request of a balance model in the balance window names an instance",
}  # table -> why it can be empty
ASKED = {"raster_rows": "; it is written with --rows"}  # table -> how to get it


class Drawn(NamedTuple):
    """A figure with its drawing."""

    name: str
    figure: Figure
    drawing: Drawing


class Skipped(NamedTuple):
    """A figure that was not drawn, and why."""

    name: str
    figure: Figure
    reason: str


def _absent(saved: Saved, table: str) -> str:
    """Why a table is not there: the source's columns say it, or the result was made without it."""
    column, reason = BECAUSE.get(table, ("", ""))
    if column and saved.columns() and column not in saved.columns():
        return reason
    if table in saved.tables:
        return EMPTY.get(table, f"table {table} has no rows")
    return f"no table {table} in this result{ASKED.get(table, '')}"


def draw_all(saved: Saved) -> tuple[list[Drawn], list[Skipped]]:
    """Draw every figure of the report that the tables allow; the others are listed with the reason."""
    caches = _caches(saved)
    if caches and saved.document.get("command") != "report":
        return draw_figures(caches, saved)
    rebuilt = charts_rebuilt.FIGURES if saved.has("rebuilt_summary") else {}
    return draw_figures({**FIGURES, **rebuilt, **caches}, saved)


def _caches(saved: Saved) -> dict[str, Figure]:
    """Figures of a sweep of caches, or of a sample in its place; none where the result has neither."""
    if saved.has("cache"):
        blocks = saved.has("block_workload")
        return charts_blocks.figures(saved) if blocks else charts_cache.figures(saved)
    return charts_block_sample.FIGURES if saved.has("curve_sample") else {}


def draw_figures(figures: dict[str, Figure], saved: Saved) -> tuple[list[Drawn], list[Skipped]]:
    """Draw those of the figures that the tables allow; the others are listed with the reason."""
    drawn, skipped = [], []
    for name, figure in figures.items():
        missing = [table for table in figure.tables if not saved.has(table)]
        if missing:
            skipped.append(Skipped(name, figure, " and ".join(_absent(saved, table) for table in missing)))
            continue
        try:
            with unchecked():
                drawn.append(Drawn(name, figure, figure.draw(saved)))
        except NotDrawn as reason:
            skipped.append(Skipped(name, figure, str(reason)))
        except KeyError as missing_column:  # a result of another version
            reason_text = f"its table lacks a column: {missing_column.args[0]}"
            skipped.append(Skipped(name, figure, reason_text))
    return drawn, skipped
