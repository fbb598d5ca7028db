"""The study's view 1, aggregate load by time: A1 to A5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.charts_load import THURSDAY, WEEKDAYS
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, number, percent
from servescope.report.study.cells import (
    Ints,
    keys,
    sums,
    whole,
)
from servescope.report.study.charts import (
    CLOCK,
    EXACT,
    LOAD,
    READABLE,
    joined,
    lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servescope.report.saved import Saved

    Row = dict[str, Any]

GROUPS = ("chat", "chat_stream", "completion", "completion_stream", "other")


def _days(saved: Saved, *columns: str) -> tuple[Ints, dict[str, list[float]], int]:
    """Days from the first to the last, sums of columns of `load_hour` by day, and the requests."""
    data = saved.arrow("load_hour")
    day = whole(data, "hour") // 24
    first, count = int(day.min()), int(day.max() - day.min()) + 1
    found = {name: sums(day - first, whole(data, name), count).tolist() for name in columns}
    return np.arange(first, first + count), found, int(whole(data, "requests").sum())


def _day_line(saved: Saved, days: Ints, series: Mapping[str, list[float]], y: str) -> tuple[alt.Chart, str]:
    """Lines over days, and a remark where days were joined."""
    if len(days) < 2:
        raise NotDrawn("needs at least 2 days; the trace touches one day of its clock")
    step = joined(len(days), len(series))
    rows = []
    for name, values in series.items():
        for at in range(0, len(days), step):
            part = values[at : at + step]
            rows.append({"x": int(days[at]), "y": round(sum(part) / len(part), 3), "series": name})
    remark = "" if step == 1 else f"Means of {step} days; the table keeps each."
    return lines(rows, list(series), y, calendar=saved.calendar, form=",.0f"), remark


def requests_by_day(saved: Saved) -> Drawing:
    """A1."""
    days, found, total = _days(saved, "requests")
    drawn, remark = _day_line(saved, days, {"requests": found["requests"]}, "requests per day")
    says = (
        f"From {number(min(found['requests']))} to {number(max(found['requests']))} requests a day over "
        f"{len(days)} days; the highest is day {int(days[int(np.argmax(found['requests']))])}."
    )
    return Drawing(drawn, says, remark, f"{total:,} requests")


def tokens_by_day(saved: Saved) -> Drawing:
    """A2."""
    data = saved.arrow("load_hour")
    held = [c for c in ("it_sum_completed", "ot_sum_completed") if data[c].null_count < data.num_rows]
    if not held:
        raise NotDrawn("the trace states no token counts")
    days, found, _ = _days(saved, *held, "completed_requests")
    total = np.sum([found[name] for name in held], axis=0)
    drawn, remark = _day_line(saved, days, {"tokens": total.tolist()}, "input + output tokens per day")
    says = (
        f"From {number(float(total.min()))} to {number(float(total.max()))} tokens a day; "
        f"the highest is day {int(days[int(np.argmax(total))])}."
    )
    return Drawing(drawn, says, remark, f"{round(sum(found['completed_requests'])):,} completed requests")


def models_by_day(saved: Saved) -> Drawing:
    """A3."""
    data = saved.arrow("model_day")
    data = data.filter(pc.is_valid(data["model"]))
    if not data.num_rows:
        raise NotDrawn("the trace states no models")
    day = whole(data, "day")
    first, count = int(day.min()), int(day.max() - day.min()) + 1
    found = np.bincount(day - first, minlength=count)
    days = np.arange(first, first + count)
    drawn, remark = _day_line(saved, days, {"models": found.tolist()}, "models with a request")
    edge = min(30, count)
    says = (
        f"Models a day: {number(float(np.median(found[:edge])))} in the median of the first {edge} days, "
        f"{number(float(np.median(found[-edge:])))} of the last {edge}, at most {int(found.max())}."
    )
    return Drawing(drawn, says, remark, f"{len(set(keys(data, 'model').names)):,} models")


def endpoints_by_day(saved: Saved) -> Drawing:
    """A4."""
    data = saved.arrow("load_hour")
    day = whole(data, "hour") // 24
    group = keys(data, "endpoint_group")
    first, count = int(day.min()), int(day.max() - day.min()) + 1
    counts: dict[str, list[float]] = {}
    for name in GROUPS:
        here = group.codes == (group.names.index(name) if name in group.names else -2)
        counts[name] = sums((day - first)[here], whole(data, "requests")[here], count).tolist()
    drawn, remark = _day_line(saved, np.arange(first, first + count), counts, "requests per day")
    total = sum(sum(values) for values in counts.values())
    shares = ", ".join(f"{name} {percent(sum(v) / total)}" for name, v in counts.items())
    return Drawing(drawn, f"Of all requests: {shares}.", remark, f"{round(total):,} requests")


def week(saved: Saved) -> Drawing:
    """A5."""
    data = saved.arrow("load_hour")
    hour = whole(data, "hour")
    shift = THURSDAY if saved.calendar else 0
    days = np.unique(hour // 24)
    if len(days) < 14:
        raise NotDrawn(f"needs at least 14 days with requests; the trace has {len(days)}")
    weekday = (hour // 24 + shift) % 7
    total = sums(weekday * 24 + hour % 24, whole(data, "requests"), 168).reshape(7, 24)
    means = total / np.bincount((days + shift) % 7, minlength=7)[:, None]
    names = WEEKDAYS if saved.calendar else tuple(str(i) for i in range(7))
    rows = [
        {"day": names[d], "hour": h, "value": round(float(means[d, h]), 3)}
        for d in range(7)
        for h in range(24)
    ]
    clock = " (UTC)" if saved.calendar else " elapsed on the trace clock"
    drawn = (
        chart(rows)
        .mark_rect()
        .encode(
            x=alt.X("hour:O", title="hour of the day" + clock).axis(labelAngle=0, values=[0, 6, 12, 18]),
            y=alt.Y("day:O", sort=list(names), title="" if saved.calendar else "day mod 7"),
            color=alt.Color("value:Q", title="requests per hour")
            .scale(range="heatmap", zero=True)
            .legend(labelExpr=READABLE, gradientLength=160),
            tooltip=["day:O", "hour:O", alt.Tooltip("value:Q", format=",.1f")],
        )
    )
    top = int(np.argmax(means))
    says = (
        f"From {number(float(means.min()))} to {number(float(means.max()))} requests an hour, most at hour "
        f"{top % 24} of {'' if saved.calendar else 'day '}{names[top // 24]}."
    )
    return Drawing(drawn, says, "", f"{round(total.sum()):,} requests on {len(days)} days")


FIGURES: dict[str, Figure] = {
    "a1_request_rate_day": Figure(
        "Requests per day", LOAD, "All requests, by the day on which they start.",
        "A count of requests is no measure of work: compare A2. " + CLOCK,
        ("load_hour",), requests_by_day, "A1", "fig_request_rate_day", EXACT,
    ),
    "a2_token_rate_day": Figure(
        "Tokens per day", LOAD,
        "Input + output tokens of completed requests, by the day on which they start; unknown counts as 0.",
        "Cached input is included. Requests that never completed are not.",
        ("load_hour",), tokens_by_day, "A2", "fig_token_rate_day", EXACT,
    ),
    "a3_daily_unique_models": Figure(
        "Models per day", LOAD, "Distinct models with at least one request on the day.",
        "A model counts from its first request of the day, however few it gets.",
        ("model_day",), models_by_day, "A3", "fig_daily_unique_models", EXACT,
    ),
    "a4_function_name_daily_requests": Figure(
        "API mix", LOAD,
        "Requests per day by endpoint called: the four of text generation, and all others (no name "
        "included).",
        "Streaming shows in the endpoint's name only.",
        ("load_hour",), endpoints_by_day, "A4", "fig_function_name_daily_requests", EXACT,
    ),
    "a5_seasonality": Figure(
        "Hours of the week", LOAD,
        "Requests of an hour of the week / number of such days that have requests.",
        "Growth over the trace is averaged in. " + CLOCK,
        ("load_hour",), week, "A5", "fig_seasonality", EXACT,
        "One numbering of weekdays serves counts and divisors, and days are named only where the trace has a "
        "calendar. The study's rows are shifted by one weekday, two of them divided by the wrong number of "
        "days, and its hours are elapsed, not UTC.",
    ),
}  # fmt: skip
