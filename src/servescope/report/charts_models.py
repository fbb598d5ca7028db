"""Figures of who and what: models over time, concentration of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servescope.report.figure import POINTS, Drawing, NotDrawn, chart, colour, percent
from servescope.report.theme import OTHERS

if TYPE_CHECKING:
    from servescope.report.saved import Saved

TOP_MODELS = 9
NO_MODEL = "(none)"
ONE, UPTO = "this user", "all users up to this rank"


def _top(saved: Saved) -> list[tuple[str, int]]:
    """Models by requests, most first, ties by name; rows without a model are `NO_MODEL`."""
    data = saved.arrow("model_day")
    data = pa.table(
        {"model": data["model"].cast(pa.string()).fill_null(NO_MODEL), "requests": data["requests"]}
    )
    sums = data.group_by("model").aggregate([("requests", "sum")]).to_pylist()
    return sorted(((row["model"], row["requests_sum"]) for row in sums), key=lambda pair: (-pair[1], pair[0]))


def short_names(names: list[str]) -> list[str]:
    """The part after the last slash of each name, where these still tell the names apart.

    >>> short_names(["org/a", "org/b"]), short_names(["x/a", "y/a"])
    (['a', 'b'], ['x/a', 'y/a'])
    """
    short = [name.rsplit("/", 1)[-1] for name in names]
    return short if len(set(short)) == len(names) else names


def models(saved: Saved) -> Drawing:
    """Share of each day's requests by model; one bar a model where the trace is under two days."""
    top = _top(saved)
    if len(top) < 2:
        none = top[0][0] == NO_MODEL
        raise NotDrawn(
            "the trace states no models" if none else f"all requests go to one model ({top[0][0]})"
        )
    days = pc.min_max(saved.arrow("model_day")["day"]).as_py()
    if days["max"] == days["min"]:
        return _model_bars(top)
    return _model_days(saved, top, int(days["min"]), int(days["max"]))


def _model_bars(top: list[tuple[str, int]]) -> Drawing:
    total = sum(requests for _, requests in top)
    rows: list[dict[str, Any]] = [
        {"model": n, "share": r / total, "requests": r} for n, r in top[:TOP_MODELS]
    ]
    rest = total - sum(row["requests"] for row in rows)
    if rest:
        rows.append({"model": f"{len(top) - TOP_MODELS} {OTHERS}", "share": rest / total, "requests": rest})
    drawn = (
        chart(rows)
        .mark_bar()
        .encode(
            y=alt.Y("model:N", sort=[row["model"] for row in rows], title=None).axis(labelLimit=150),
            x=alt.X("share:Q", title="share of requests").axis(format="%"),
            tooltip=["model:N", "requests:Q", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    return Drawing(
        drawn, f"{len(top):,} models; {top[0][0]} takes {percent(top[0][1] / total)} of the requests."
    )


def _model_days(saved: Saved, top: list[tuple[str, int]], first: int, last: int) -> Drawing:
    data = saved.arrow("model_day")
    names = [name for name, _ in top[:TOP_MODELS]]
    shown = short_names(names) + ([OTHERS] if len(top) > TOP_MODELS else [])
    model = data["model"].cast(pa.string()).fill_null(NO_MODEL)
    found = pc.index_in(model, value_set=pa.array(names, pa.string()))
    code = found.fill_null(len(names)).to_numpy()  # the place after the last is the rest
    step = -(-((last - first + 1) * len(shown)) // POINTS)  # days joined into one bar
    bar = (data["day"].to_numpy().astype(np.int64) - first) // step
    count = (last - first) // step + 1
    sums = np.zeros((count, len(shown)))
    np.add.at(sums, (bar, code), data["requests"].to_numpy().astype(np.float64))
    shares = np.round(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1), 5).tolist()
    scale = 86_400_000 if saved.calendar else 1
    base = first if saved.calendar else 0
    rows = [
        {
            "day": (base + i * step) * scale,
            "series": name,
            "value": shares[min(i, count - 1)][k],
            "k": k,
        }
        for i in [*range(count), count]  # a step needs its end
        for k, name in enumerate(shown)
    ]
    kind = "T" if saved.calendar else "Q"
    drawn = (
        chart(rows)
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X(f"day:{kind}", title="day (UTC)" if saved.calendar else "day of the trace").scale(
                nice=False
            ),
            y=alt.Y("value:Q", title="share of requests", stack="zero").axis(format="%").scale(domain=[0, 1]),
            color=colour(shown),
            order="k:Q",
            tooltip=[
                "series:N",
                "utcyearmonthdate(day):T" if saved.calendar else "day:Q",
                alt.Tooltip("value:Q", format=".1%"),
            ],
        )
    )
    share = top[0][1] / sum(requests for _, requests in top)
    says = (
        f"{len(top):,} models over {last - first + 1} days; {top[0][0]} takes {percent(share)} of requests."
    )
    return Drawing(drawn, says, f"{step} days are joined into one." if step > 1 else "")


def users(saved: Saved) -> Drawing:
    """Shares of the heaviest users, one by one and added up."""
    ranked = sorted(
        (row for row in saved.rows("user_share") if row["rank"] is not None), key=lambda row: int(row["rank"])
    )
    if not ranked:
        raise NotDrawn("the trace states no users")
    rows: list[dict[str, Any]] = []
    upto = 0.0
    for row in ranked:
        upto += row["request_share"]
        values = {ONE: row["request_share"], UPTO: upto}
        rows += [
            {"rank": row["rank"], "user": row["user"], "series": k, "value": round(v, 6)}
            for k, v in values.items()
        ]
    drawn = (
        chart(rows)
        .mark_line(point={"size": 30})
        .encode(
            x=alt.X("rank:Q", title="rank of the user by requests")
            .axis(format="d", values=[row["rank"] for row in ranked])
            .scale(nice=False),
            y=alt.Y("value:Q", title="share of requests").axis(format="%"),
            color=colour([ONE, UPTO]),
            tooltip=["rank:Q", "user:N", "series:N", alt.Tooltip("value:Q", format=".2%")],
        )
    )
    says = (
        f"The heaviest user sends {percent(ranked[0]['request_share'])} of the requests, "
        f"the {len(ranked)} heaviest together {percent(upto)}."
    )
    return Drawing(drawn, says)
