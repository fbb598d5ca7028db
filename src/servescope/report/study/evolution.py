"""The study's view 3, evolution over the year: C1 to C7."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.charts_models import short_names
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, number, percent
from servescope.report.study.cells import (
    Floats,
    Grouped,
    Ints,
    equal,
    grouped_quantiles,
    keys,
    numbers,
    sums,
    whole,
)
from servescope.report.study.charts import BINNED, EVOLUTION, EXACT, IDS, KEYED, bands, finite, month_text
from servescope.report.theme import OTHERS

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

TOP = 10
QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90)
NAMES = ("p10", "p25", "p50", "p75", "p90")
COHORT_REQUESTS = 10  # users of C6 and C7 have more
_TEE = re.compile(r"-tee$", re.IGNORECASE)
_DEPLOYMENT = re.compile(r" \[[^\]]*\]$")  # added where one name stands for several ids
_BARE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){1,3}(-[0-9a-f]{4,12})?|[0-9a-f]{32}")


def merged_name(text: str) -> str:
    """A model's name without what tells deployments apart; ids stay as they are.

    >>> merged_name("org/m-TEE"), merged_name("org/m-tee [0df3133d]"), merged_name("org/m-v2")
    ('org/m', 'org/m', 'org/m-v2')
    """
    return _TEE.sub("", _DEPLOYMENT.sub("", text))


def named(text: str) -> bool:
    """Whether a model has a name, not only an id.

    >>> named("org/m"), named("0df3133d-c477-56d2-b4db-f2093bb150a1")
    (True, False)
    """
    return not _BARE_ID.fullmatch(text.lower())


class Shares(NamedTuple):
    """The ten top models: names, months, and shares float64[months, names + 1]; the last is the rest."""

    names: list[str]
    months: list[int]
    shares: Floats
    requests: int
    unnamed: int


def months_of(day: Ints) -> Ints:
    """Calendar month of days of the trace clock; January 1970 is 1."""
    return day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) + 1


def _wanted(saved: Saved, *columns: str) -> Shares:
    """Shares by month of the sum of columns. Raises NotDrawn without models or for a single month."""
    data = saved.arrow("model_day")
    data = data.filter(pc.is_valid(data["model"]))
    if not data.num_rows:
        raise NotDrawn("the trace states no models")
    if any(data[column].null_count == data.num_rows for column in columns):
        raise NotDrawn("the trace states no token counts")
    of = keys(data, "model")
    merged = [merged_name(name) for name in of.names]
    order = list(dict.fromkeys(merged))
    place = {name: at for at, name in enumerate(order)}
    code = np.array([place[name] for name in merged], np.int64)[of.codes]
    requests = sums(code, whole(data, "requests"), len(order))
    with_name = [at for at, name in enumerate(order) if named(name)]
    top = sorted(with_name or range(len(order)), key=lambda at: (-requests[at], order[at]))[:TOP]
    column = np.full(len(order), len(top), np.int64)
    column[top] = np.arange(len(top))
    month = months_of(whole(data, "day"))
    months, row = np.unique(month, return_inverse=True)
    values = np.sum([whole(data, name) for name in columns], axis=0)
    table = sums(row * (len(top) + 1) + column[code], values, len(months) * (len(top) + 1))
    table = table.reshape(len(months), -1)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    names = short_names([order[at] for at in top])
    total = int(requests.sum())
    bare = total - int(requests[with_name].sum())
    return Shares(names, months.tolist(), shares, total, bare)


def others_share(saved: Saved) -> list[float]:
    """Share of each month's requests outside the ten top models."""
    return [float(row[-1]) for row in _wanted(saved, "requests").shares]


def _colours(names: list[str]) -> alt.Color:
    domain = [*names, *(" " * (i + 1) for i in range(TOP - len(names))), OTHERS]
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=domain, range="ordinal")).legend(
        values=[*names, OTHERS]
    )


def top_models(saved: Saved, *columns: str) -> Drawing:
    """C1 (requests) and C2 (tokens): stacked shares of the ten models with most requests."""
    found = _wanted(saved, *columns)
    if len(found.months) < 2:
        raise NotDrawn("needs at least 2 calendar months")
    series = [*found.names, OTHERS]
    rows = [
        {
            "month": month_text(month) if saved.calendar else month,
            "series": name,
            "k": k,
            "share": round(float(found.shares[at, k]), 5),
        }
        for at, month in enumerate(found.months)
        for k, name in enumerate(series)
    ]
    what = "requests" if columns == ("requests",) else "tokens"
    drawn = (
        chart(rows, 320)
        .mark_bar()
        .encode(
            x=alt.X("month:O", title="month of the trace clock")
            .axis(labelAngle=0, labelOverlap="greedy")
            .scale(paddingInner=0.2, paddingOuter=0.1),
            y=alt.Y("share:Q", title=f"share of the month's {what}", stack="zero")
            .scale(domain=[0, 1])
            .axis(format="%"),
            color=_colours(found.names),
            order="k:Q",
            tooltip=["month:O", "series:N", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    first, last = found.shares[0], found.shares[-1]
    says = (
        f"The others take {percent(float(first[-1]))} of the {what} in the first month and "
        f"{percent(float(last[-1]))} in the last."
    )
    remark = ""
    if found.unnamed:
        remark = (
            f"{percent(found.unnamed / max(found.requests, 1))} of the requests go to models that have an id "
            "but no name; they are among the others."
        )
    return Drawing(drawn, says, remark, f"{found.requests:,} requests")


def legend(saved: Saved) -> Drawing:
    """C3: the colours of C1 and C2, with each model's share of all requests."""
    found = _wanted(saved, "requests")
    data = saved.arrow("model_day")
    month = months_of(whole(data, "day"))[pc.is_valid(data["model"]).to_numpy(zero_copy_only=False)]
    requests = whole(data.filter(pc.is_valid(data["model"])), "requests")
    weight = np.array([requests[month == one].sum() for one in found.months], np.float64)
    shares = (found.shares * weight[:, None]).sum(axis=0) / max(weight.sum(), 1)
    series = [*found.names, OTHERS]
    rows = [{"series": n, "share": round(float(s), 5)} for n, s in zip(series, shares, strict=True)]
    drawn = (
        chart(rows, 300)
        .mark_bar()
        .encode(
            y=alt.Y("series:N", sort=series, title=None).axis(labelLimit=150),
            x=alt.X("share:Q", title="share of all requests").axis(format="%"),
            color=_colours(found.names).legend(None),
            tooltip=["series:N", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    top, rest = percent(float(shares[0])), percent(float(shares[-1]))
    says = f"{series[0]} leads with {top} of all requests; the others have {rest}."
    return Drawing(drawn, says, "", f"{found.requests:,} requests")


def _month_quantiles(saved: Saved, metric: str) -> Grouped:
    data = equal(saved.arrow("month_shape"), "metric", metric)
    bins = (numbers(data, "bin_low"), numbers(data, "bin_high"), whole(data, "count"))
    return grouped_quantiles(whole(data, "month"), *bins, QUANTILES)


def request_months(saved: Saved, metric: str) -> Drawing:
    """C4 (it) and C5 (ot): quantiles of a month's requests."""
    found = _month_quantiles(saved, metric)
    rows = _band_rows(found.keys, found.values)
    if len(rows) < 2:
        raise NotDrawn("needs at least 2 calendar months with both sizes known")
    word = {"it": "input", "ot": "output"}[metric]
    drawn = bands(
        rows,
        "month of the trace clock",
        f"{word} tokens of a request",
        log=min(r["p10"] for r in rows) > 0,
        calendar=saved.calendar,
    )
    says = f"Median {word} tokens by month: {_listed(rows)}."
    return Drawing(drawn, says, "", f"{int(found.counts.sum()):,} requests")


def _cohort_rows(saved: Saved, column: str) -> tuple[list[Row], list[int], int]:
    """Quantiles of each cohort's users, the cohorts' sizes, and the requests of these users."""
    data = saved.arrow("user_stats")
    cohort, n = numbers(data, "cohort"), numbers(data, "n_shape")
    it, ot, value = (numbers(data, name) for name in ("it_median", "ot_median", column))
    held = np.isfinite(cohort) & (n > COHORT_REQUESTS) & (it > 1) & (ot > 1)
    months = np.unique(cohort[held]).astype(np.int64)
    if len(months) < 2:
        raise NotDrawn(f"needs at least 2 cohorts of users with more than {COHORT_REQUESTS} requests")
    quantiles = np.array([np.quantile(value[held & (cohort == month)], QUANTILES) for month in months])
    sizes = [int((cohort[held] == month).sum()) for month in months]
    return _band_rows(months, quantiles), sizes, int(n[held].sum())


def cohorts(saved: Saved, column: str) -> Drawing:
    """C6 (it_median) and C7 (ot_median): quantiles over the users of a cohort, each user once."""
    rows, sizes, requests = _cohort_rows(saved, column)
    word = {"it_median": "input", "ot_median": "output"}[column]
    drawn = bands(
        rows,
        "month in which the user first appeared",
        f"a user's median {word} tokens",
        log=False,
        calendar=saved.calendar,
    )
    says = (
        f"Median user by cohort: {_listed(rows)} {word} tokens; "
        f"cohorts of {min(sizes):,} to {max(sizes):,} users."
    )
    return Drawing(drawn, says, "", f"{sum(sizes):,} users, {requests:,} requests")


def month_medians(saved: Saved, metric: str) -> list[float]:
    """Median of each month's requests, in order."""
    return [float(row[2]) for row in _month_quantiles(saved, metric).values]


def cohort_medians(saved: Saved) -> list[float]:
    """Median over each cohort's users of their median input tokens, in order."""
    return [row["p50"] for row in _cohort_rows(saved, "it_median")[0]]


def _band_rows(xs: Ints, values: Floats) -> list[Row]:
    return [
        {"x": int(x), **{name: finite(float(v)) for name, v in zip(NAMES, row, strict=True)}}
        for x, row in zip(xs, values, strict=True)
    ]


def _listed(rows: list[Row]) -> str:
    return ", ".join(number(row["p50"]) for row in rows)


TOP_TEXT = (
    "The ten named models with most requests over the whole trace, the same in both figures; a trailing "
    "-TEE is "
    "stripped and such deployments merged. All other requests with a model, unnamed ids included, are the "
    "others."
)
SHARES = "Shares: more of one model need not be less of another. The first and the last month may be cut."
MIX = "The mix of models and users changes with the months; this is not one user's habit."
COHORT = (
    "A cohort is what the side table states, else the month of the key's first request, which id rotation "
    "makes "
    "later. " + IDS
)

FIGURES: dict[str, Figure] = {
    "c1_top10_model_monthly_request_share": Figure(
        "Top models: requests", EVOLUTION, f"Share of a month's requests. {TOP_TEXT}", SHARES,
        ("model_day",), lambda saved: top_models(saved, "requests"),
        "C1", "fig_top10_model_monthly_request_share", EXACT,
    ),
    "c2_top10_model_monthly_token_share": Figure(
        "Top models: tokens", EVOLUTION,
        f"Share of a month's input + output tokens, completed or not. {TOP_TEXT}", SHARES,
        ("model_day",), lambda saved: top_models(saved, "it_sum", "ot_sum"),
        "C2", "fig_top10_model_monthly_token_share", EXACT,
    ),
    "c3_top10_model_monthly_share_legend": Figure(
        "Top models: the colours of C1 and C2", EVOLUTION, f"Share of all requests. {TOP_TEXT}",
        "The whole trace at once: compare C1 for the months.",
        ("model_day",), legend, "C3", "fig_top10_model_monthly_share_legend", EXACT,
        "The study's figure is the legend alone; here it also says each model's share of all requests.",
    ),
    "c4_monthly_input_token_intervals": Figure(
        "Prompt sizes by month", EVOLUTION,
        "Median (line), P25 to P75 and P10 to P90 (bands) of input tokens over requests with both sizes "
        "above 0.",
        MIX, ("month_shape",), partial(request_months, metric="it"),
        "C4", "fig_monthly_input_token_intervals", BINNED,
    ),
    "c5_monthly_output_token_intervals": Figure(
        "Answer sizes by month", EVOLUTION,
        "Median (line), P25 to P75 and P10 to P90 (bands) of output tokens over requests with both sizes "
        "above 0.",
        MIX, ("month_shape",), partial(request_months, metric="ot"),
        "C5", "fig_monthly_output_token_intervals", BINNED,
    ),
    "c6_user_release_cohort_input_band": Figure(
        "Prompt sizes by cohort", EVOLUTION,
        "Quantiles over the users of a cohort, each once, of the user's median input tokens: median (line), "
        "P25 "
        "to P75 and P10 to P90 (bands). Users with more than 10 requests and both medians above 1.",
        COHORT, ("user_stats",), partial(cohorts, column="it_median"),
        "C6", "fig_user_release_cohort_input_band", BINNED, KEYED,
    ),
    "c7_user_release_cohort_output_band": Figure(
        "Answer sizes by cohort", EVOLUTION, "As C6, for the user's median output tokens.",
        COHORT, ("user_stats",), partial(cohorts, column="ot_median"),
        "C7", "fig_user_release_cohort_output_band", BINNED, KEYED,
    ),
}  # fmt: skip
