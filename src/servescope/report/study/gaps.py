"""The study's view 2, the gaps between requests to a model: B9 and B10."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt
import numpy as np

from servescope.report.figure import POINTS, Drawing, Figure, NotDrawn, chart, number, percent
from servescope.report.study.cells import (
    Floats,
    Ints,
    keys,
    log_cells,
    numbers,
    spearman,
    sums,
    whole,
)
from servescope.report.study.charts import (
    EXACT,
    POPULATION,
    SQUARES,
    TALL,
    density,
    finite,
    log_axis,
    typed,
)
from servescope.report.study.users import CELLS_SAY, pairs_of

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]


class Hours(NamedTuple):
    """Models of B9 and B10: names, mean requests and mean CV of their valid hours, numbers of those."""

    names: list[str]
    requests: Floats
    cv: Floats
    hours: Ints


def valid_hours(saved: Saved) -> Hours:
    """Models with more than 100 requests and at least 5 valid hours.

    A valid hour has at least 10 requests and a CV of its gaps that is above 0. Raises NotDrawn
    where no model has enough of them.
    """
    data = saved.arrow("model_hour")
    of = keys(data, "model")
    requests, cv, gaps = (numbers(data, column) for column in ("n_requests", "CV", "n_gaps"))
    valid = (of.codes >= 0) & (requests >= BUSY_HOUR) & (gaps >= HOUR_GAPS) & np.isfinite(cv) & (cv > 0)
    count = len(of.names)
    hours = np.bincount(of.codes[valid], minlength=count)
    totals = requests_of(saved, of.names)
    totals = sums(of.codes, requests, count) if totals is None else totals
    held = np.flatnonzero((hours >= VALID_HOURS) & (totals > MODEL_REQUESTS))
    if not len(held):
        raise NotDrawn(
            f"no model has {VALID_HOURS} hours of at least {BUSY_HOUR} requests and {HOUR_GAPS} gaps"
        )
    mean_requests = sums(of.codes[valid], requests[valid], count)[held] / hours[held]
    mean_cv = sums(of.codes[valid], cv[valid], count)[held] / hours[held]
    return Hours([of.names[i] for i in held], mean_requests, mean_cv, hours[held])


def requests_of(saved: Saved, names: list[str]) -> Floats | None:
    """Requests with a user of each model (F-UM), None where the trace has no users."""
    if not saved.has("pair_count"):
        return None
    found, requests, _ = pairs_of(saved, "model", "user")
    known = dict(zip(found, requests.tolist(), strict=True))
    return np.array([known.get(name, 0.0) for name in names])


BUSY_HOUR, HOUR_GAPS, VALID_HOURS = 10, 5, 5  # least requests and gaps of an hour, hours of a model
MODEL_REQUESTS = 100  # models of B9 and B10 have more
HOUR_TITLES = ("mean requests in an hour", "mean CV of the gaps inside an hour")


def _poisson(low: float, high: float) -> alt.Chart:
    rows = [{"x": low, "y": 1.0}, {"x": high, "y": 1.0}]
    return typed(chart(rows, TALL).mark_line(style="reference").encode(x="x:Q", y="y:Q"))


def _hours_say(hours: Hours) -> str:
    above = percent(float(np.mean(hours.cv > 1)))
    return f"{above} of the models have a mean CV above 1 (burstier than Poisson)."


def smoothness(saved: Saved) -> Drawing:
    """B9."""
    found = valid_hours(saved)
    rows, per = log_cells(found.requests, found.cv, 32)
    drawn = density(rows, *HOUR_TITLES, "models")
    low, high = min(r["y"] for r in rows), max(r["y2"] for r in rows)
    layers: alt.TopLevelMixin = drawn
    if low < 1 < high:
        layers = alt.layer(drawn, _poisson(min(r["x"] for r in rows), max(r["x2"] for r in rows)))
    says = f"{len(found.names):,} models. {_hours_say(found)}"
    samples = f"{len(found.names):,} models, {int(found.hours.sum()):,} valid hours"
    remark = CELLS_SAY.format(per) + (" Dashed: a CV of 1." if layers is not drawn else "")
    return Drawing(layers, says, remark, samples)


def correlations(saved: Saved, names: list[str]) -> Floats:
    """Spearman's correlation of neighbouring gaps of each named model, NaN where there is none."""
    data = saved.arrow("model_gap_pair")
    of = keys(data, "model")
    place = {name: at for at, name in enumerate(names)}
    wanted = np.array([place.get(name, -1) for name in of.names] + [-1], np.int64)[of.codes]
    previous, following = (_ranked(numbers(data, c)) for c in ("previous_bin_low", "bin_low"))
    order = np.argsort(wanted, kind="stable")
    counts = whole(data, "count").astype(np.float64)
    edges = np.searchsorted(wanted[order], np.arange(len(names) + 1))
    found = np.full(len(names), math.nan)
    for at in range(len(names)):
        here = order[edges[at] : edges[at + 1]]
        if len(here):
            found[at] = spearman(previous[here], following[here], counts[here])
    return found


def _ranked(values: Floats) -> Ints:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def next_gap(saved: Saved) -> Drawing:
    """B10."""
    found = valid_hours(saved)
    value = correlations(saved, found.names)
    known = np.flatnonzero(np.isfinite(value))
    if not len(known):
        raise NotDrawn("no model with enough valid hours has pairs of gaps that vary")
    shown = known[np.argsort(-found.requests[known], kind="stable")][:POINTS]
    rows = [
        {
            "x": finite(float(found.requests[i])),
            "y": finite(float(found.cv[i])),
            "value": round(float(value[i]), 4),
            "model": found.names[i],
        }
        for i in shown
    ]
    xs, ys = ([row[axis] for row in rows] for axis in ("x", "y"))
    drawn = (
        chart(rows, TALL)
        .mark_circle(size=26, opacity=0.8)
        .encode(
            x=alt.X("x:Q", title=HOUR_TITLES[0])
            .scale(type="log", nice=False, padding=8)
            .axis(**log_axis(min(xs), max(xs))),
            y=alt.Y("y:Q", title=HOUR_TITLES[1])
            .scale(type="log", nice=False, padding=8)
            .axis(**log_axis(min(ys), max(ys))),
            color=alt.Color("value:Q", title="rank correlation")
            .scale(range="diverging", domain=[-1, 1], domainMid=0)
            .legend(gradientLength=160, values=[-1, 0, 1]),
            tooltip=["model:N", alt.Tooltip("x:Q", format=",.1f"), alt.Tooltip("y:Q", format=".3f"),
                     alt.Tooltip("value:Q", title="correlation", format=".3f")],
        )
    )  # fmt: skip
    positive = percent(float(np.mean(value[known] > 0)))
    says = (
        f"{positive} of the models have a positive correlation of neighbouring gaps, in the median "
        f"{number(float(np.median(value[known])))}. {_hours_say(found)}"
    )
    remark = f"The {POINTS:,} models with most requests an hour." if len(known) > POINTS else ""
    return Drawing(drawn, says, remark, f"{len(known):,} models")


HOURS_TEXT = (
    "Only gaps above 0 between requests to the model inside one clock hour; hours of at least 10 requests "
    "and "
    "5 gaps; models with more than 100 requests and at least 5 such hours, each hour of equal weight."
)
BUSY_ONLY = "Only busy hours are averaged, so that no model lies left of 10 requests an hour."

FIGURES: dict[str, Figure] = {
    "b9_model_heatmap_fixedxy_density": Figure(
        "Models: load and burstiness", POPULATION,
        f"Models by mean requests and by mean CV of the gaps, over hours. {HOURS_TEXT}",
        BUSY_ONLY, ("model_hour",), smoothness, "B9", "fig_model_heatmap_fixedxy_density", EXACT, SQUARES,
    ),
    "b10_model_heatmap_fixedxy_scatter_colored_metrics": Figure(
        "Models: does the next gap resemble the last?", POPULATION,
        f"The models of B9, one dot each; colour: Spearman's rank correlation of each gap above 0 with the "
        "one "
        f"before it, over the whole trace. {HOURS_TEXT}",
        BUSY_ONLY + " A series of single gaps: nothing on the correlation of counts.",
        ("model_hour", "model_gap_pair"), next_gap,
        "B10", "fig_model_heatmap_fixedxy_scatter_colored_metrics",
        "Gaps are ranked in 20 bins a decade, equal bins share their middle rank.",
        "Ties share the middle rank (the study: the lowest), and no model is skipped for its size.",
    ),
}  # fmt: skip
