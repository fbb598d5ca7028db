"""What a figure is, and the few things that all figures share."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt
from altair.utils import schemapi

from servescope.report.theme import OTHERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from servescope.report.saved import Saved

POINTS = 5_000  # a figure holds about this many points at most
SERIES = 9  # and this many coloured series; the rest become one
HEIGHT = 260
FEW = 40
# labels such as 0.1, 800, 1.2k: each tick with its own prefix, none below 1 (100m reads as metres)
SHORT = "abs(datum.value) < 1 ? format(datum.value, '~r') : format(datum.value, '~s')"


class NotDrawn(Exception):  # noqa: N818 (the reason is shown to the reader, it is no failure)
    """A figure cannot be drawn from the tables at hand; the text says why."""


@dataclass(frozen=True)
class Drawing:
    """A drawn figure.

    chart   the chart, width "container"
    says    what the figure shows, in words and numbers: the text alternative
    remark  how the figure differs from its table (windows joined, series gathered), or ""
    samples what was counted, and how many of it, or ""
    """

    chart: alt.TopLevelMixin
    says: str
    remark: str = ""
    samples: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure of the report.

    title       what is shown
    section     heading it stands under
    definition  how its numbers are defined
    limits      what it cannot tell
    tables      tables that it is drawn from
    draw        saved results -> drawing; raises NotDrawn
    code        of a figure of the study: its letter and number
    origin      its name there
    error       how far its values can be off
    differs     where it differs from the study's figure on purpose, and why
    """

    title: str
    section: str
    definition: str
    limits: str
    tables: tuple[str, ...]
    draw: Callable[[Saved], Drawing]
    code: str = ""
    origin: str = ""
    error: str = ""
    differs: str = ""


@contextmanager
def unchecked() -> Iterator[None]:
    """Charts are not held against Vega-Lite's schema meanwhile: two thirds of the time of drawing.

    A chart depends on the tables by its values alone, and the tests check every figure.
    """
    with schemapi.debug_mode(False):
        yield


def chart(rows: list[dict[str, Any]], height: int = HEIGHT) -> alt.Chart:
    """A chart over rows, as wide as its container."""
    return alt.Chart(values(rows), width="container", height=height)


def dots(rows: list[dict[str, Any]]) -> dict[str, int] | bool:
    """Dots on a line of few points: a series of a single point has no line to be seen."""
    return {"size": 18} if len(rows) < FEW else False


def values(rows: list[dict[str, Any]]) -> alt.Data:
    """Rows as data that the specification holds itself."""
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def colour(series: Sequence[str], *, total: bool = False, field: str = "series") -> alt.Color:
    """Colour by series in a fixed order; with `total` the first series is drawn in ink."""
    domain = [name for name in series if name != OTHERS]
    if OTHERS in series:
        # colours go by place: empty names fill the places up to the last colour
        domain += [" " * (i + 1) for i in range(SERIES - len(domain))] + [OTHERS]
    scale = alt.Scale(domain=domain, range="ordinal" if total else "category")
    legend = alt.Legend(values=list(series)) if len(series) > 1 else None
    return alt.Color(f"{field}:N", scale=scale, legend=legend, title=None)


def ticks(low: float, high: float) -> list[float]:
    """Labels of a logarithmic axis from `low` to `high`: decades, finer steps on a short axis.

    >>> ticks(1, 3), ticks(0.002, 1)
    ([1.0, 1.5, 2.0, 3.0], [0.01, 0.1, 1.0])
    """
    span = high / low
    steps = (
        (1.0,) if span >= 100 else ((1.0, 2.0, 5.0) if span >= 10 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))
    )
    found = [round(step * 10.0**k, 12) for k in range(-9, 13) for step in steps]
    return [tick for tick in found if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]


def time_unit(span_s: float) -> tuple[str, float]:
    """The unit in which a span of seconds reads well, and its seconds.

    >>> time_unit(7200.0)
    ('minutes', 60.0)
    """
    if span_s < 600:
        return "seconds", 1.0
    if span_s <= 4 * 3600:
        return "minutes", 60.0
    if span_s <= 5 * 86400:
        return "hours", 3600.0
    return "days", 86400.0


def number(value: float | None, digits: int = 3) -> str:
    """A number for a reader: thousands separated, `digits` significant digits below 1,000.

    >>> number(1234.5), number(0.36642), number(None)
    ('1,234', '0.366', 'unknown')
    """
    if value is None or math.isnan(value):
        return "unknown"
    if abs(value) >= 10 ** (digits - 1) or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal.

    >>> percent(0.3664)
    '36.6%'
    """
    return "unknown" if share is None else f"{100 * share:.1f}%"
