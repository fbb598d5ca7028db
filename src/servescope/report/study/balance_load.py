"""The study's view 5, load of instances as logged: E1 to E4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from servescope.report.charts_models import short_names
from servescope.report.figure import POINTS, Drawing, Figure, NotDrawn, chart, number
from servescope.report.study.cells import Floats, Ints, equal, keys, whole
from servescope.report.study.charts import (
    BALANCE,
    EXACT,
    HALF_OPEN,
    TALL,
    finite,
    joined,
    lines,
    log_axis,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from servescope.report.saved import Saved

    Row = dict[str, Any]

MINUTES_A_DAY = 1440
LEAST_ACTIVE, LEAST_REQUESTS = 2, 10  # instances and requests of a minute of E3
LEAST_IN_CELL = 30  # requests of a cell of E5, E6


def balance_model(saved: Saved, data: pa.Table, role: str) -> str:
    """The model of a figure: the one that a preset names for its role, else the one with most requests.

    role  "load" (E4) or "latency" (E5 to E8)
    """
    of = keys(data, "model")
    wanted = ((saved.document.get("inputs") or {}).get("balance_roles") or {}).get(role)
    if wanted in of.names:
        return str(wanted)
    weight = whole(data, next(c for c in ("requests", "count", "n") if c in data.column_names))
    if not len(of.names):
        raise NotDrawn("no request of a balance model lies in the balance window")
    return of.names[int(np.argmax(np.bincount(of.codes, weights=weight, minlength=len(of.names))))]


def _models(data: pa.Table) -> tuple[list[str], list[pa.Table]]:
    """Models of `instance_minute`, most requests first, by short name, and each one's rows."""
    of = keys(data, "model")
    weight = np.bincount(of.codes, weights=whole(data, "requests"), minlength=len(of.names))
    order = np.argsort(-weight, kind="stable")
    return short_names([of.names[at] for at in order]), [data.filter(of.codes == at) for at in order]


def _by_hour(saved: Saved, measure: Callable[[pa.Table], tuple[Ints, Floats]], y: str, says: str) -> Drawing:
    """A line a model over the hours of the balance window; hours without a value are gaps."""
    data = saved.arrow("instance_minute")
    names, parts = _models(data)
    found = [measure(part) for part in parts]
    spans = [hours for hours, _ in found if len(hours)]
    if not spans:
        raise NotDrawn("no hour of the balance window has what this figure needs")
    first, last = min(int(h[0]) for h in spans), max(int(h[-1]) for h in spans)
    step = joined(last - first + 1, len(names))
    rows: list[Row] = []
    told = []
    for name, (hours, values) in zip(names, found, strict=True):
        dense = np.full(-(-(last - first + 1) // step) * step, np.nan)
        dense[hours - first] = values
        for at in range(0, len(dense), step):
            part = dense[at : at + step]
            known = part[np.isfinite(part)]
            mean = finite(float(known.mean())) if len(known) else None
            rows.append({"x": round((first + at) / 24, 8), "y": mean, "series": name})
        if len(values):
            told.append(f"{name} {number(float(np.median(values)))}")
    remark = "" if step == 1 else f"Means of {step} hours; the table keeps every minute."
    drawn = lines(rows, names, y, calendar=saved.calendar)
    samples = f"{int(whole(data, 'requests').sum()):,} requests, {data.num_rows:,} instance-minutes"
    return Drawing(drawn, f"{says}, median hour: {', '.join(told)}.", remark, samples)


def _minutes(data: pa.Table) -> tuple[Ints, Ints]:
    """Distinct minutes in order, and the place of each row's minute among them."""
    found, place = np.unique(whole(data, "minute"), return_inverse=True)
    return found, place


def _hourly(hour: Ints, value: Floats, fold: Callable[[Floats], np.floating[Any]]) -> tuple[Ints, Floats]:
    """Fold values by hour; hour ascending."""
    hours, starts = np.unique(hour, return_index=True)
    return hours, np.array([fold(part) for part in np.split(value, starts[1:])]) if len(hours) else value


def _request_rate(data: pa.Table) -> tuple[Ints, Floats]:
    hours, place = np.unique(whole(data, "minute") // 60, return_inverse=True)
    return hours, np.bincount(place, weights=whole(data, "requests")).astype(np.float64)


def _active(data: pa.Table) -> tuple[Ints, Floats]:
    minutes, place = _minutes(data)
    return _hourly(minutes // 60, np.bincount(place).astype(np.float64), np.median)


def _max_mean(data: pa.Table) -> tuple[Ints, Floats]:
    minutes, place = _minutes(data)
    tokens = whole(data, "tokens").astype(np.float64)
    active = np.bincount(place)
    requests = np.bincount(place, weights=whole(data, "requests"))
    total = np.bincount(place, weights=tokens)
    most = np.zeros(len(minutes))
    np.maximum.at(most, place, tokens)
    kept = (active >= LEAST_ACTIVE) & (requests >= LEAST_REQUESTS) & (total > 0)
    return _hourly(minutes[kept] // 60, most[kept] * active[kept] / total[kept], np.mean)


def request_rate(saved: Saved) -> Drawing:
    """E1."""
    return _by_hour(saved, _request_rate, "requests per hour", "Requests per hour")


def active_instances(saved: Saved) -> Drawing:
    """E2."""
    return _by_hour(saved, _active, "active instances (median minute)", "Active instances")


def max_mean_tokens(saved: Saved) -> Drawing:
    """E3."""
    if saved.arrow("instance_minute")["tokens"].null_count == saved.arrow("instance_minute").num_rows:
        raise NotDrawn("the trace states no token counts")
    return _by_hour(saved, _max_mean, "max / mean tokens of instances", "Max / mean of tokens")


def busiest_day(minutes: Ints, active: Floats) -> int:
    """First minute of the 24 hours that end where the rolling day of active instances is fullest.

    minutes, active  minutes with a request, ascending, and their active instances; other minutes count 0
    returns          that end less 24 h, rounded down to an hour; the first hour in a trace below a day
    """
    first, count = int(minutes[0]), int(minutes[-1] - minutes[0]) + 1
    dense = np.zeros(count)
    dense[minutes - first] = active
    if count < MINUTES_A_DAY:
        return first // 60 * 60
    sums = np.cumsum(np.concatenate([[0.0], dense]))
    end = int(np.argmax(sums[MINUTES_A_DAY:] - sums[:-MINUTES_A_DAY])) + MINUTES_A_DAY - 1
    return (first + end - MINUTES_A_DAY) // 60 * 60


def _spread(data: pa.Table, start: int) -> tuple[Ints, Ints, Floats, int]:
    """Instance row, slot and requests of the cells of a day, and the minutes of a slot."""
    minute, requests = whole(data, "minute") - start, whole(data, "requests")
    names = keys(data, "instance")
    firsts = np.full(len(names.names), MINUTES_A_DAY, np.int64)
    np.minimum.at(firsts, names.codes, minute)
    row = np.empty(len(firsts), np.int64)
    row[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 1440):
        slots = MINUTES_A_DAY // minutes
        cell, place = np.unique(row[names.codes] * slots + minute // minutes, return_inverse=True)
        if len(cell) <= POINTS or minutes == 1440:
            break
    return cell // slots, cell % slots, np.bincount(place, weights=requests).astype(np.float64), minutes


def arrivals_map(saved: Saved) -> Drawing:
    """E4."""
    data = saved.arrow("instance_minute")
    model = balance_model(saved, data, "load")
    data = equal(data, "model", model)
    minutes, place = _minutes(data)
    start = busiest_day(minutes, np.bincount(place).astype(np.float64))
    minute = whole(data, "minute")
    data = data.filter((minute >= start) & (minute < start + MINUTES_A_DAY))
    row, slot, requests, length = _spread(data, start)
    instances = int(row.max()) + 1
    if instances > POINTS:
        raise NotDrawn(f"{instances:,} instances are more than a figure shows")
    per_minute = requests / length
    low, high = max(1.0 / length, float(np.quantile(per_minute, 0.05))), float(np.quantile(per_minute, 0.99))
    high = max(high, low * 1.01)
    step = length / 60
    rows = [
        {"x": round(s * step, 4), "x2": round((s + 1) * step, 4), "y": r, "y2": r + 1, "value": finite(v, 4)}
        for r, s, v in zip(row.tolist(), slot.tolist(), per_minute.tolist(), strict=True)
    ]
    drawn = (
        chart(rows, TALL)
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title=f"hours from day {start / MINUTES_A_DAY:.2f} of the trace clock")
            .scale(domain=[0, 24], nice=False)
            .axis(values=list(range(0, 25, 4))),
            x2="x2:Q",
            y=alt.Y("y:Q", title="instance, by first activity")
            .scale(domain=[0, instances], nice=False, reverse=True)
            .axis(format="d", tickMinStep=1),
            y2="y2:Q",
            color=alt.Color("value:Q", title="requests a minute")
            .scale(type="log", domain=[low, high], clamp=True, range="ramp")
            .legend(gradientLength=160, **log_axis(low, high)),
            tooltip=["x:Q", "y:Q", alt.Tooltip("value:Q", format=",.3~g")],
        )
    )
    says = (
        f"{model}: {instances} instances with {number(float(requests.sum()))} requests in the busiest day, "
        "which begins at "
        f"day {start / MINUTES_A_DAY:.2f}; a cell holds up to {number(float(per_minute.max()))} requests a "
        "minute."
    )
    remark = "" if length == 1 else f"A cell is the mean of {length} minutes; the table keeps each."
    return Drawing(drawn, says, remark, f"{int(requests.sum()):,} requests")


WINDOW = "Requests of the balance models in the balance window that name an instance."
ACTIVE = (
    "An instance is active in a minute in which a request starts on it; minutes without any do not exist."
)
ONE_MODEL = "The study draws one model; here each balance model has a line."

FIGURES: dict[str, Figure] = {
    "e1_lb_request_rate": Figure(
        "Request rate", BALANCE, f"Requests that start in an hour. {WINDOW}",
        "Arrivals, not concurrency.", ("instance_minute",), request_rate, "E1", "fig_lb_request_rate", EXACT,
        f"{ONE_MODEL} {HALF_OPEN}",
    ),
    "e2_lb_active_instances": Figure(
        "Active instances", BALANCE, f"Median over the minutes of an hour of the active instances. {WINDOW} "
        f"{ACTIVE}",
        "An instance that only decodes older requests does not count.",
        ("instance_minute",), active_instances, "E2", "fig_lb_active_instances", EXACT,
        f"{ONE_MODEL} {HALF_OPEN}",
    ),
    "e3_lb_maxmean_tokens": Figure(
        "Imbalance of tokens", BALANCE,
        f"Highest / mean input + output tokens over the instances active in a minute, mean over the minutes "
        "of an "
        f"hour with at least 2 active instances and 10 requests; an hour without such a minute is a gap. "
        f"{WINDOW}",
        "Tokens count in the minute in which their request starts, not when they are worked on.",
        ("instance_minute",), max_mean_tokens, "E3", "fig_lb_maxmean_tokens", EXACT,
        f"{ONE_MODEL} {HALF_OPEN}",
    ),
    "e4_lb_concurrency": Figure(
        "Who serves the busiest day", BALANCE,
        f"Requests a minute that start on each instance, in the 24 hours with most active instances; blank: "
        "none. "
        f"Rows by first active minute; colour logarithmic from P5 to P99. {WINDOW}",
        "Arrivals a minute: no figure of the study shows how many requests are in flight.",
        ("instance_minute",), arrivals_map, "E4", "fig_lb_concurrency", EXACT,
        "The study's name says concurrency; what it draws are arrivals, as here.",
    ),
}  # fmt: skip
