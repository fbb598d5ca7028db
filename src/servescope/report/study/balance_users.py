"""The study's view 5, latency by load, and one user over instances: E5 to E8."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from servescope.report.figure import Drawing, Figure, NotDrawn, chart, number, percent
from servescope.report.study.balance_load import balance_model
from servescope.report.study.cells import equal, grouped_quantiles, keys, numbers, whole
from servescope.report.study.charts import (
    BALANCE,
    BINNED,
    EXACT,
    IDS,
    KEYED,
    SQUARES,
    TALL,
    diagonal,
    finite,
    log_axis,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from servescope.report.saved import Saved

    Row = dict[str, Any]

LEAST_IN_CELL = 30  # requests of a cell of E5, E6


def latency_by_load(saved: Saved, metric: str) -> Drawing:
    """E5 (ttft) and E6 (decode): P90 by load and length."""
    data = equal(saved.arrow("load_latency_cell"), "metric", metric)
    if not data.num_rows:
        raise NotDrawn("no request of a balance model has the latency that this figure needs")
    model = balance_model(saved, data, "latency")
    data = equal(data, "model", model)
    edges = [numbers(data, name) for name in ("load_low", "tokens_low", "load_high", "tokens_high")]
    cell, place = np.unique(np.stack(edges, axis=1), axis=0, return_inverse=True)
    bins = (np.maximum(numbers(data, "bin_low"), 0.0), numbers(data, "bin_high"), whole(data, "count"))
    found = grouped_quantiles(place.reshape(-1).astype(np.int64), *bins, (0.9,))
    rows = []
    for k, n, (value,) in zip(*(part.tolist() for part in found), strict=True):
        if n >= LEAST_IN_CELL:
            x, y, x2, y2 = (finite(float(v)) for v in cell[k])
            rows.append({"x": x, "x2": x2, "y": y, "y2": y2, "value": finite(value), "n": n})
    if not rows:
        raise NotDrawn(f"no cell of load and length holds {LEAST_IN_CELL} requests")
    word, tokens = {"ttft": ("time to first token", "input"), "decode": ("decode time", "output")}[metric]
    drawn = _latency_map(rows, f"{tokens} tokens of the request", f"P90 of {word}, s")
    values = [row["value"] for row in rows]
    span = f"from {number(min(values))} to {number(max(values))} s"
    says = f"{model}: P90 of {word} {span} over {len(rows)} cells."
    remark = "Colour is linear between P5 and P95 of the cells; values beyond have the end's colour."
    return Drawing(drawn, says, remark, f"{sum(row['n'] for row in rows):,} requests in cells shown")


def _latency_map(rows: list[Row], y: str, value: str) -> alt.TopLevelMixin:
    left, right = min(r["x"] for r in rows), max(r["x2"] for r in rows)
    low, high = min(r["y"] for r in rows), max(r["y2"] for r in rows)
    ends = [float(v) for v in np.quantile([r["value"] for r in rows], (0.05, 0.95))]
    if ends[0] == ends[1]:
        ends[1] += 1e-6
    drawn = (
        chart(rows, TALL)
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title="tokens on the instance in that second")
            .scale(type="log", domain=[left, right], nice=False)
            .axis(**log_axis(left, right)),
            x2="x2:Q",
            y=alt.Y("y:Q", title=y)
            .scale(type="log", domain=[low, high], nice=False)
            .axis(**log_axis(low, high)),
            y2="y2:Q",
            color=alt.Color("value:Q", title=value)
            .scale(domain=ends, clamp=True, range="ramp", nice=False)
            .legend(gradientLength=160, format=".3~g"),
            tooltip=[
                alt.Tooltip("x:Q", title="load from", format=",.3~s"),
                alt.Tooltip("y:Q", title="tokens from", format=",.3~s"),
                alt.Tooltip("value:Q", title=value, format=",.3~g"),
                alt.Tooltip("n:Q", title="requests", format=","),
            ],
        )
    )
    line = diagonal(max(left, low), min(right, high))
    return alt.layer(drawn, line) if max(left, low) < min(right, high) else alt.layer(drawn)


def user_zoom(saved: Saved, last: bool) -> Drawing:
    """E7 (first pick) and E8 (last pick): one user's busiest hour over instances."""
    data = saved.arrow("user_hour_instance")
    model = balance_model(saved, data, "latency")
    data = equal(data, "model", model)
    hour, users = whole(data, "hour"), keys(data, "user").codes
    at = -1 if last else 0
    data = data.filter((hour == hour[at]) & (users == users[at]))
    picks = len(set(zip(hour.tolist(), users.tolist(), strict=True)))
    total, hit = (
        int(whole(data, "n").sum()),
        whole(data, "ct_sum").sum() / max(whole(data, "it_sum").sum(), 1),
    )
    rows = _zoom_rows(saved, model, data, int(hour[at]), total)
    used = sum(1 for row in rows if row["what"] == SHARE and row["value"] > 0)
    says = (
        f"{model}, hour {int(hour[at])}: {total:,} requests of one user on {used} of {len(rows) // 2} "
        "active instances; "
        f"{percent(float(hit))} of the input was cached."
    )
    remark = "" if picks > 1 else "Only one user qualifies: E7 and E8 are the same."
    return Drawing(_zoom_chart(rows), says, remark, f"{total:,} requests; {picks:,} users qualify")


SHARE, CACHED = "share of requests", "cached part of input"


def _zoom_rows(saved: Saved, model: str, data: pa.Table, hour: int, total: int) -> list[Row]:
    """Two rows an active instance, by first active minute: share of requests, and cached part."""
    order: list[str] = []
    if saved.has("instance_minute"):
        active = equal(saved.arrow("instance_minute"), "model", model)
        active = active.filter(whole(active, "minute") // 60 == hour)
        of_all = keys(active, "instance")
        first = np.full(len(of_all.names), 60 * (hour + 1), np.int64)
        np.minimum.at(first, of_all.codes, whole(active, "minute"))
        order = [name for _, name in sorted(zip(first.tolist(), of_all.names, strict=True))]
    of = [None if name is None else str(name) for name in data["instance"].to_pylist()]
    values = dict(
        zip(of, zip(*(whole(data, c).tolist() for c in ("n", "it_sum", "ct_sum")), strict=True), strict=True)
    )
    order += [name for name in of if name is not None and name not in order]
    rows = []
    for place, name in enumerate(order):
        n, it, ct = values.get(name, (0, 0, 0))
        cached = min(max(100 * ct / it, 0.0), 100.0) if it > 0 else 0.0
        for what, value in ((SHARE, 100 * n / max(total, 1)), (CACHED, cached)):
            rows.append({"place": place, "instance": name, "what": what, "value": round(value, 3), "n": n})
    return rows


def _zoom_chart(rows: list[Row]) -> alt.TopLevelMixin:
    most = max((row["value"] for row in rows if row["what"] == SHARE), default=0.0)
    base = chart(rows).encode(
        x=alt.X("place:O", title="instances active in that hour, by first activity").axis(
            labelAngle=0, labelOverlap="greedy", ticks=False
        ),
        xOffset=alt.XOffset("what:N", sort=[SHARE, CACHED]),
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=[SHARE, CACHED], range="category")),
        tooltip=["instance:N", "what:N", alt.Tooltip("value:Q", format=".2f"), "n:Q"],
    )
    left = alt.Y("value:Q", title="% of the user's requests").scale(
        domain=[0, max(8.0, 1.25 * most)], nice=False
    )
    right = (
        alt.Y("value:Q", title="% of input cached").scale(domain=[0, 100]).axis(orient="right", grid=False)
    )
    drawn: alt.TopLevelMixin = alt.layer(
        base.transform_filter(f"datum.what === '{SHARE}'").mark_bar().encode(y=left),
        base.transform_filter(f"datum.what === '{CACHED}'").mark_bar().encode(y=right),
    ).resolve_scale(y="independent")
    return drawn


SAME_SECOND = (
    "Load: input + output tokens of all requests of the model that start on the same instance in the same "
    "clock "
    "second, the request itself included. Cells of 10 bins a decade with at least 30 requests"
)
OWN_LOAD = (
    "The load contains the request's own tokens, so no cell can lie above the dashed line y = x; it is "
    "arrivals of "
    "one second, not load in flight."
)
ZOOM = (
    "Each user's hour with most requests; those with at least 200 requests and cached / input of at least "
    "0.4. "
    "Left axis: share of the user's requests by instance; right axis: cached / input of the user's requests "
    "there. "
    "Instances that are active for anybody in that hour, by first activity."
)

FIGURES: dict[str, Figure] = {
    "e5_lb_ttft_p90_vs_load": Figure(
        "TTFT by load and prompt", BALANCE, f"P90 of the time to first token by load and input tokens. "
        f"{SAME_SECOND}.",
        OWN_LOAD, ("load_latency_cell",), partial(latency_by_load, metric="ttft"),
        "E5", "fig_lb_ttft_p90_vs_load", BINNED, f"{SQUARES} The dashed line shows what the axes enforce.",
    ),
    "e6_lb_decode_p90_vs_load": Figure(
        "Decode time by load and answer", BALANCE,
        f"P90 of duration - TTFT by load and output tokens. {SAME_SECOND}.",
        OWN_LOAD, ("load_latency_cell",), partial(latency_by_load, metric="decode"),
        "E6", "fig_lb_decode_p90_vs_load", BINNED,
        f"Requests without a TTFT or an end are left out; the study counts them as a decode time of 0. "
        f"{SQUARES}",
    ),
    "e7_lb_user_zoom_top": Figure(
        "The heaviest user over instances", BALANCE, f"{ZOOM} Shown: the one with most requests.",
        "One user, one hour: an example, no distribution. " + IDS,
        ("user_hour_instance",), partial(user_zoom, last=False), "E7", "fig_lb_user_zoom_top", EXACT, KEYED,
    ),
    "e8_lb_user_zoom_min": Figure(
        "A lighter user over instances", BALANCE, f"{ZOOM} Shown: the one with fewest requests.",
        "One user, one hour: an example, no distribution. " + IDS,
        ("user_hour_instance",), partial(user_zoom, last=True), "E8", "fig_lb_user_zoom_min", EXACT, KEYED,
    ),
}  # fmt: skip
