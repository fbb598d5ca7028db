"""Figures of arriving load: requests and tokens per second, days, hours of the week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.figure import (
    POINTS,
    SERIES,
    SHORT,
    Drawing,
    NotDrawn,
    chart,
    colour,
    number,
    time_unit,
)
from servescope.report.saved import ALL
from servescope.report.theme import OTHERS

if TYPE_CHECKING:
    import numpy.typing as npt

    from servescope.report.saved import Saved

    Floats = npt.NDArray[np.float64]

DAY_S = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
THURSDAY = 3  # 1970-01-01, day 0 of a calendar, counted from Monday


def _windows(saved: Saved, window_s: int, scope: str, column: str) -> Floats:
    """Values of a scope's complete windows in time order (all windows where none is complete)."""
    data = saved.arrow("rate")
    here = pc.and_(pc.equal(data["window_s"], window_s), pc.equal(data["request_type"], scope))
    data = data.filter(here).sort_by("start_s")
    whole = data.filter(data["complete"])
    used = whole if whole.num_rows else data
    if used[column].null_count == used.num_rows:
        return np.zeros(0)
    return np.asarray(used[column].fill_null(0).to_numpy(), np.float64)


def join_windows(values: Floats, factor: int) -> Floats:
    """Means of `factor` neighbouring windows, float64[ceil(n / factor)]; the last may hold fewer."""
    starts = np.arange(0, len(values), factor)
    sums = np.add.reduceat(values, starts)
    counts = np.diff(np.append(starts, len(values)))
    return np.asarray(sums / counts)


def _named(scope: str) -> str:
    return "all requests" if scope == ALL else scope


def _factor(values: dict[str, Floats]) -> int:
    """How many windows are joined into one so that a figure holds about `POINTS` points."""
    return max(1, -(-sum(len(series) for series in values.values()) // POINTS))


def _rows(values: dict[str, Floats], window_s: int, factor: int) -> tuple[list[dict[str, Any]], str]:
    """Rows (t, series, k, value per second), and the unit of t.

    Where windows are joined, rows of the first series also hold `high`, the highest of them.
    """
    count = max(len(series) for series in values.values())
    unit, per = time_unit(count * window_s)
    rows: list[dict[str, Any]] = []
    for k, (name, series) in enumerate(values.items()):
        rates = join_windows(series, factor) / window_s
        starts = np.arange(0, len(series), factor)
        highs = np.maximum.reduceat(series, starts) / window_s
        # a step line needs the end of its last step
        for i, start in enumerate([*starts, count]):
            here = min(i, len(rates) - 1)
            row = {"t": round(float(start) * window_s / per, 4), "series": name, "k": k}
            row["value"] = round(float(rates[here]), 6)
            if factor > 1 and k == 0:
                row["high"] = round(float(highs[here]), 6)
            rows.append(row)
    return rows, unit


def _time_axis(unit: str) -> alt.X:
    return alt.X("t:Q", title=f"{unit} since the first request", scale=alt.Scale(nice=False))


def _joined(window_s: int, factor: int) -> str:
    if factor == 1:
        return ""
    return (
        f"In windows of {factor * window_s:,} s, each the mean of {factor} windows of {window_s} s; "
        "the table keeps them all."
    )


def _spread(rates: Floats) -> str:
    return f"from {number(rates.min())} to {number(rates.max())}, mean {number(rates.mean())}"


def arrivals(saved: Saved, window_s: int) -> Drawing:
    """Requests per second in windows of `window_s`, by type with the total."""
    types = saved.types()
    scopes = [ALL, *types[:SERIES]] if len(types) > 1 else [ALL]
    values = {_named(scope): _windows(saved, window_s, scope, "requests") for scope in scopes}
    total = values[_named(ALL)] / window_s
    if not len(total):
        raise NotDrawn(f"the trace has no windows of {window_s} s")
    values = {name: series for name, series in values.items() if len(series)}
    factor = _factor(values)
    rows, unit = _rows(values, window_s, factor)
    base = chart(rows).encode(
        x=_time_axis(unit),
        color=colour(list(values), total=len(values) > 1),
        tooltip=["series:N", alt.Tooltip("t:Q"), alt.Tooltip("value:Q", format=",.3~f")],
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=1.1 if window_s < 60 else 1.8)
    line = line.encode(y=alt.Y("value:Q", title="requests per second"))
    drawn: alt.TopLevelMixin = line
    remark = _joined(window_s, factor)
    if factor > 1:
        high = base.transform_filter("isValid(datum.high)").mark_line(interpolate="step-after", opacity=0.4)
        drawn = alt.layer(high.encode(y="high:Q", strokeWidth=alt.value(0.8)), line)
        remark += (
            f" The faint line is the highest window of {window_s} s among those joined, all types together."
        )
    if len(types) > SERIES:
        remark = f"{remark} The {len(types) - SERIES} smallest types have no line of their own.".strip()
    return Drawing(drawn, f"Requests per second in windows of {window_s} s: {_spread(total)}.", remark)


def tokens(saved: Saved, column: str) -> Drawing:
    """Arriving tokens per second in windows of 300 s, stacked by type."""
    word = column.split("_")[0]
    total = _windows(saved, 300, ALL, column)
    if not len(total):
        raise NotDrawn(f"the trace states no {word} tokens, or has no windows of 300 s")
    types = saved.types()
    values = {_named(ALL): total}
    if len(types) > 1:
        values = {scope: _windows(saved, 300, scope, column) for scope in types[:SERIES]}
        values = {scope: series if len(series) else np.zeros(len(total)) for scope, series in values.items()}
        rest = total - np.sum(list(values.values()), axis=0)
        if rest.any():
            values[OTHERS] = rest
    factor = _factor(values)
    rows, unit = _rows(values, 300, factor)
    drawn = (
        chart(rows)
        .mark_area(interpolate="step-after", opacity=0.85)
        .encode(
            x=_time_axis(unit),
            y=alt.Y("value:Q", title=f"{word} tokens per second", stack="zero").axis(labelExpr=SHORT),
            color=colour(list(values)),
            order="k:Q",
            tooltip=["series:N", alt.Tooltip("t:Q"), alt.Tooltip("value:Q", format=",.1f")],
        )
    )
    together = ", all types together" if len(values) > 1 else ""
    says = f"Arriving {word} tokens per second in windows of 300 s{together}: {_spread(total / 300)}."
    return Drawing(drawn, says, _joined(300, factor))


def _hours(saved: Saved) -> tuple[int, dict[str, Floats]]:
    """First hour, and requests of every hour from it to the last by endpoint group (gaps are 0)."""
    data = saved.arrow("load_hour")
    hour = data["hour"].to_numpy().astype(np.int64)
    first, count = int(hour.min()), int(hour.max() - hour.min()) + 1
    groups = data["endpoint_group"].fill_null(OTHERS).to_pylist()
    requests = data["requests"].to_numpy().astype(np.float64)
    by_group: dict[str, Floats] = {}
    for name in sorted(set(groups)):
        here = np.array([group == name for group in groups])
        by_group[str(name)] = np.asarray(
            np.bincount(hour[here] - first, weights=requests[here], minlength=count), np.float64
        )
    return first, by_group


def hours(count: int) -> str:
    """A number of clock hours in words, from two days on in days.

    >>> hours(1), hours(47), hours(60)
    ('1 hour', '47 hours', '2.5 days')
    """
    if count < 48:
        return "1 hour" if count == 1 else f"{count} hours"
    return f"{number(count / 24)} days"


def daily(saved: Saved) -> Drawing:
    """Requests per day by endpoint group, where the trace covers at least two days."""
    first, groups = _hours(saved)
    count = len(next(iter(groups.values())))
    if count < 48:
        raise NotDrawn(f"needs at least 2 days; the trace touches {hours(count)} of its clock")
    order = sorted(groups, key=lambda name: (-groups[name].sum(), name))
    days = (first + np.arange(count)) // 24
    base = 0 if saved.calendar else int(days[0])
    rows = []
    for k, name in enumerate(order):
        sums = np.bincount(days - days[0], weights=groups[name])
        rows += [
            {
                "day": (int(days[0]) + i - base) * (DAY_S * 1000 if saved.calendar else 1),
                "series": name,
                "k": k,
                "value": v,
            }
            for i, v in enumerate([*sums.tolist(), sums[-1]])  # a step needs its end
        ]
    totals = np.bincount(days - days[0], weights=np.sum(list(groups.values()), axis=0))
    x = (
        alt.X("day:T", title="day (UTC)", scale=alt.Scale(type="utc", nice=False))
        if saved.calendar
        else alt.X("day:Q", title="day of the trace (0 is the first)", scale=alt.Scale(nice=False))
    )
    drawn = (
        chart(rows)
        .mark_area(interpolate="step-after", opacity=0.85)
        .encode(
            x=x,
            y=alt.Y("value:Q", title="requests per day", stack="zero").axis(labelExpr=SHORT),
            color=colour(order),
            order="k:Q",
            tooltip=[
                "series:N",
                "utcyearmonthdate(day):T" if saved.calendar else "day:Q",
                alt.Tooltip("value:Q", format=",.0f"),
            ],
        )
    )
    says = f"Requests per day over {len(totals)} days: from {number(totals.min())} to {number(totals.max())}."
    return Drawing(drawn, says, "The first and the last day may be cut by the trace.")


def hour_of_week(saved: Saved) -> Drawing:
    """Mean requests per hour of the week, where the trace covers at least two weeks."""
    first, groups = _hours(saved)
    total = np.sum(list(groups.values()), axis=0)
    if len(total) < 14 * 24:
        raise NotDrawn(f"needs at least 2 weeks; the trace touches {hours(len(total))} of its clock")
    hour = first + np.arange(len(total))
    shift = THURSDAY if saved.calendar else 0
    cell = ((hour // 24 + shift) % 7) * 24 + hour % 24
    means = np.bincount(cell, weights=total, minlength=168) / np.bincount(cell, minlength=168)
    names = WEEKDAYS if saved.calendar else tuple(str(i) for i in range(7))
    rows = [{"day": names[i // 24], "hour": i % 24, "value": round(float(v), 3)} for i, v in enumerate(means)]
    drawn = (
        chart(rows)
        .mark_rect()
        .encode(
            x=alt.X(
                "hour:O", title="hour of the day" + (" (UTC)" if saved.calendar else " on the trace clock")
            ).axis(labelAngle=0, values=[0, 6, 12, 18]),
            y=alt.Y("day:O", sort=list(names), title="" if saved.calendar else "day mod 7"),
            color=alt.Color("value:Q", title="requests per hour")
            .scale(range="heatmap", zero=True)
            .legend(labelExpr="format(datum.value, '.2~s')", gradientLength=160),
            tooltip=["day:O", "hour:O", alt.Tooltip("value:Q", format=",.1f")],
        )
    )
    top = int(np.argmax(means))
    says = (
        f"Mean requests per hour of the week: from {number(means.min())} to {number(means.max())}, "
        f"highest at hour {top % 24} of {'' if saved.calendar else 'day '}{names[top // 24]}."
    )
    return Drawing(drawn, says)
