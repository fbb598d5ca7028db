"""The kinds of chart that the study's figures are: curves, densities, heat maps, bands, lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import POINTS, chart, colour, dots, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

GLOBAL = "all requests"
TALL = 320
DAY_MS = 86_400_000
YEAR_MONTH = "1970 + floor((datum.value - 1) / 12) + '-' + format((datum.value - 1) % 12 + 1, '02d')"
# 800, 1.2k, 0.05: a prefix for thousands, none for parts of one
READABLE = "abs(datum.value) < 1 ? format(datum.value, '~g') : format(datum.value, '~s')"


def typed(drawn: Any) -> alt.Chart:
    """The chart itself: the library's methods do not say what they return."""
    return drawn  # type: ignore[no-any-return]


def log_ticks(low: float, high: float) -> list[float]:
    """Places of labels on a logarithmic axis, also on one too short for round numbers of `ticks`.

    >>> log_ticks(1, 1000), log_ticks(300, 3000), log_ticks(100, 140)
    ([1.0, 10.0, 100.0, 1000.0], [500.0, 1000.0, 2000.0], [100.0, 110.0, 120.0, 130.0, 140.0])
    """
    found = ticks(low, high)
    if len(found) > 2 or not low < high:
        return found
    if high >= 10 * low:
        steps = (k * 10.0**d for d in range(floor_log(low), floor_log(high) + 1) for k in (1, 2, 5))
        return [float(f"{s:.6g}") for s in steps if low * (1 - 1e-9) <= s <= high * (1 + 1e-9)]
    least = (high - low) / 5
    step = next(s for s in (10.0 ** floor_log(least) * k for k in (1, 2, 5, 10)) if s >= least * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.6g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def floor_log(value: float) -> int:
    """Whole decade of a value above 0."""
    return math.floor(math.log10(value) + 1e-9)


def log_axis(low: float, high: float) -> dict[str, Any]:
    """Values and labels of a logarithmic axis from `low` to `high`."""
    return {"values": log_ticks(low, high), "labelExpr": READABLE}


def curves(rows: list[Row], names: Sequence[str], x: alt.X, *, what: str) -> alt.Chart:
    """Cumulative shares, rows x, y, series; the series of all requests is dashed ink.

    what  of which the share is taken, in words
    """
    total = GLOBAL in names and len(names) > 1
    drawn = chart(rows).mark_line(interpolate="step-after", point=dots(rows))
    drawn = drawn.encode(
        x=x,
        y=alt.Y("y:Q", title=f"share of {what} ≤ x").scale(domain=[0, 1]).axis(format="%"),
        color=colour(list(names), total=total),
        tooltip=["series:N", alt.Tooltip("x:Q", format=",.4~g"), alt.Tooltip("y:Q", format=".1%")],
    )
    if not total:
        return typed(drawn)
    dash = alt.condition(f"datum.series === '{GLOBAL}'", alt.value([5, 3]), alt.value([1, 0]))
    return typed(drawn.encode(strokeDash=dash))


def density(rows: list[Row], x: str, y: str, what: str, *, linear: bool = False) -> alt.Chart:
    """Cells x, x2, y, y2 by colour of their count n on a log scale; x and y are axis titles.

    linear  whether y is a share in [0, 1]; else it is logarithmic as x
    """
    left, right = min(r["x"] for r in rows), max(r["x2"] for r in rows)
    low, high = min(r["y"] for r in rows), max(r["y2"] for r in rows)
    most = max(r["n"] for r in rows)
    up = alt.Y("y:Q", title=y)
    if linear:
        up = up.scale(domain=[0, 1]).axis(format="%")
    else:
        up = up.scale(type="log", domain=[low, high], nice=False).axis(**log_axis(low, high))
    return typed(
        chart(rows, TALL)
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title=x)
            .scale(type="log", domain=[left, right], nice=False)
            .axis(**log_axis(left, right)),
            x2="x2:Q",
            y=up,
            y2="y2:Q",
            color=alt.Color("n:Q", title=what)
            .scale(type="log", domain=[1, max(most, 10)], range="ramp", nice=False)
            .legend(labelExpr=READABLE, gradientLength=160, values=ticks(1, max(most, 10))),
            tooltip=[
                alt.Tooltip("x:Q", title="x from", format=",.4~g"),
                alt.Tooltip("x2:Q", title="x below", format=",.4~g"),
                alt.Tooltip("y:Q", title="y from", format=",.4~g"),
                alt.Tooltip("y2:Q", title="y below", format=",.4~g"),
                alt.Tooltip("n:Q", title=what, format=","),
            ],
        )
    )


def diagonal(low: float, high: float) -> alt.Chart:
    """The line y = x from `low` to `high`, for a layer over a density."""
    rows = [{"x": low, "y": low}, {"x": high, "y": high}]
    return typed(chart(rows, TALL).mark_line(style="reference").encode(x="x:Q", y="y:Q"))


def cells(rows: list[Row], x: alt.X, y: alt.Y, value: str) -> alt.Chart:
    """A heat map of rows x, x2, y, y2, value, n with linear colour; without y2, y names a band.

    value  title of the colour
    """
    drawn = chart(rows, TALL).mark_rect()
    drawn = drawn.encode(
        x=x,
        x2="x2:Q",
        y=y,
        color=alt.Color("value:Q", title=value)
        .scale(range="ramp", zero=False, nice=False)
        .legend(gradientLength=160, format=".3~g"),
        tooltip=[
            alt.Tooltip("x:Q", title="x from", format=",.4~g"),
            alt.Tooltip("y:Q" if "y2" in rows[0] else "y:N", title="y from"),
            alt.Tooltip("value:Q", title=value, format=",.3~g"),
            alt.Tooltip("n:Q", title="requests", format=","),
        ],
    )
    return typed(drawn.encode(y2="y2:Q") if "y2" in rows[0] else drawn)


def month_text(month: int) -> str:
    """A month counted from January 1970 (1) as year and month.

    >>> month_text(664)
    '2025-04'
    """
    return f"{1970 + (month - 1) // 12}-{(month - 1) % 12 + 1:02d}"


def bands(
    rows: list[Row],
    x: str,
    y: str,
    *,
    log: bool,
    calendar: bool,
    opacity: tuple[float, float] = (0.10, 0.22),
) -> alt.TopLevelMixin:
    """Median line and bands P25–P75 and P10–P90 over months x; rows x, p10 … p90.

    calendar  whether months are those of a calendar, to be named by their year
    """
    low, high = min(r["p10"] for r in rows), max(r["p90"] for r in rows)
    across = alt.X("x:Q", title=x).scale(nice=False)
    months = [r["x"] for r in rows]
    across = across.axis(values=months, labelExpr=YEAR_MONTH if calendar else "datum.value")
    base = chart(rows).encode(x=across)
    up = alt.Y("p10:Q", title=y)
    if log:
        up = up.scale(type="log", nice=False).axis(**log_axis(low, high))
    else:
        up = up.axis(labelExpr=READABLE)
    tooltip = [
        "x:Q",
        *(alt.Tooltip(f"{p}:Q", format=",.4~g") for p in ("p10", "p25", "p50", "p75", "p90")),
    ]
    return alt.layer(
        base.mark_area(opacity=opacity[0] + 0.04).encode(y=up, y2="p90:Q"),
        base.mark_area(opacity=opacity[1]).encode(y="p25:Q", y2="p75:Q"),
        base.mark_line(point=True).encode(y="p50:Q", tooltip=tooltip),
    )


def lines(rows: list[Row], names: Sequence[str], y: str, *, calendar: bool, form: str = ",.4~g") -> alt.Chart:
    """Lines over days, rows x (days from 1970 on), y, series; a null y is a gap.

    y         axis title
    calendar  whether days are those of a calendar, to be named by their dates
    """
    across = alt.X("x:Q", title="day of the trace clock").scale(nice=False, zero=False).axis(format="d")
    if calendar:
        rows = [{**row, "x": round(row["x"] * DAY_MS)} for row in rows]
        across = alt.X("x:T", title="day (UTC)").scale(type="utc", nice=False)
    return typed(
        chart(rows)
        .mark_line(strokeWidth=1.3, point=dots(rows))
        .encode(
            x=across,
            y=alt.Y("y:Q", title=y).axis(labelExpr=READABLE),
            color=colour(list(names)),
            tooltip=[
                "series:N",
                "utcyearmonthdatehours(x):T" if calendar else alt.Tooltip("x:Q", format=",.2~f"),
                alt.Tooltip("y:Q", format=form),
            ],
        )
    )


def raster(rows: list[Row], y: str) -> alt.Chart:
    """One dot a request: rows x (days), y (index); colour goes round by index."""
    return typed(
        chart(rows, TALL)
        .mark_circle(size=9, opacity=0.7)
        .encode(
            x=alt.X("x:Q", title="days since the first request shown")
            .scale(domain=[0, 31], nice=False)
            .axis(values=list(range(0, 31, 6))),
            y=alt.Y("y:Q", title=y).scale(nice=False).axis(format="d", tickMinStep=1),
            color=alt.Color("c:N", legend=None).scale(range="category"),
            tooltip=[alt.Tooltip("x:Q", format=".2f"), "y:Q"],
        )
    )


def joined(length: int, series: int) -> int:
    """How many neighbouring points become one, so that all series together stay within `POINTS`."""
    return max(1, -(-length * max(series, 1) // POINTS))


def finite(value: float, digits: int = 5) -> float | None:
    """The value rounded to significant digits, None where it is not finite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


LOAD, POPULATION = "Aggregate load", "Users and models"
EVOLUTION, CACHING, BALANCE = "Evolution over the year", "Prefix caching", "Load balancing"
EXACT = "Counts are exact."
BINNED = "Values are counted in 100 bins a decade: off by less than 2.4%."
RATIOS = "Ratios are counted in 1,000 bins: off by at most 0.001; 0 and 1 are exact."
CLOCK = "Days and hours are those of the trace clock, which need not be a calendar's."
IDS = "Users are ids: where ids rotate, one person counts several times and a history ends at each rotation."
KEYED = "Users are grouped by id and rotation round, the study groups by id alone."
SHIFTED = "Cells lie on their bin edges; the study's plot shifts them by half a cell."
SQUARES = "Square bins of the logarithm stand for the study's hexagons."
LABEL = "Lines have their models' names; the study's DeepSeek V3.2 is the id of DeepSeek-V3-0324-TEE."
HALF_OPEN = "The window is a parameter; the study's text and bounds disagree by up to a day."
