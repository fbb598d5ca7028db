"""Figures of how right a session rule is: by look-back, users, turn, pause, and what goes on at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.figure import Drawing, Figure, NotDrawn, chart, colour, number, percent, ticks

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

SECTION = "How right the rebuilt sessions are"
MEASURES = {"precision": "precision: links that are right", "recall": "recall: true links that were found"}
LIMITS = (
    "The truth is what the source states, or what block ids show; where it is missing nothing is measured. "
    "How right a rule is depends on how many sessions a user has at once: another trace differs."
)
DEFINITION = "Right links / links of the rule (precision) and / true links (recall)"
SAID = {
    "turn": "true turn",
    "gap_s": "seconds since the true parent's start",
    "concurrency": "sessions of the user going on at once",
    "distance": "requests of the user since the true parent",
}


def _points(rows: list[Row], x: str, series: dict[str, str]) -> list[Row]:
    """A point for each measure that is defined, in the order of the measures."""
    return [
        {"x": row[x], "y": float(f"{row[name]:.5g}"), "series": said, "links": row["links_true"]}
        for name, said in series.items()
        for row in rows
        if row[name] is not None and row[x] is not None
    ]


def _lines(points: list[Row], x: str) -> alt.Chart:
    """Shares over a logarithm; a 0 stands at the left edge as a half."""
    for row in points:
        row["place"] = max(row["x"], 0.5)
    low, high = (end(row["place"] for row in points) for end in (min, max))
    drawn: alt.Chart = (
        chart(points)
        .mark_line(point={"size": 24})
        .encode(
            x=alt.X("place:Q", title=x)
            .scale(type="log", nice=False)
            .axis(values=ticks(low, high), format="~s"),
            y=alt.Y("y:Q", title="share of links").scale(domain=[0, 1]).axis(format="%"),
            color=colour(list(dict.fromkeys(row["series"] for row in points))),
            tooltip=[
                "series:N",
                alt.Tooltip("x:Q", format=",", title=x),
                alt.Tooltip("y:Q", format=".1%"),
                alt.Tooltip("links:Q", format=",", title="true links"),
            ],
        )
    )
    return drawn


def by_look_back(saved: Saved) -> Drawing:
    """Precision and recall by look-back."""
    rows = sorted(saved.rows("accuracy_look_back"), key=lambda row: int(row["look_back"]))
    points = _points(rows, "look_back", MEASURES)
    if len({row["x"] for row in points}) < 2:
        raise NotDrawn("links were measured at fewer than two look-backs")
    said = [
        f"of the links with a look-back of {number(row['look_back'])}, {percent(row['precision'])} are "
        f"right, and {percent(row['recall'])} of the true ones are found"
        for row in (rows[0], rows[-1])
    ]
    return Drawing(_lines(points, "requests to look back"), f"{'; '.join(said).capitalize()}.")


def by_bin(saved: Saved, dimension: str) -> Drawing:
    """Precision and recall by one dimension of `accuracy_by`."""
    rows = [row for row in saved.rows("accuracy_by") if row["dimension"] == dimension]
    points = _points([row for row in rows if row["links_true"]], "low", MEASURES)
    if len({row["x"] for row in points}) < 2:
        raise NotDrawn(f"all true links fall into one bin of {SAID[dimension]}")
    linked = [row for row in rows if row["links_true"]]
    most = max(linked, key=lambda row: int(row["links_true"]))
    upto = "or more" if most["high"] is None else f"to below {number(most['high'])}"
    where = "of unknown place" if most["low"] is None else f"{number(most['low'])} {upto}"
    total = sum(row["links_true"] for row in linked)
    says = (
        f"Most true links ({number(most['links_true'])} of {number(total)}) lie at {where} "
        f"({SAID[dimension]}); {percent(most['recall'])} of them were found."
    )
    return Drawing(_lines(points, SAID[dimension]), says, "A point stands at the start of its bin.")


def by_users(saved: Saved) -> Drawing:
    """Precision and recall by the number of users to whom the true sessions are dealt, longest look-back."""
    rows = saved.rows("accuracy_users")
    most = max(row["look_back"] for row in rows)
    rows = sorted((row for row in rows if row["look_back"] == most), key=lambda row: int(row["users"]))
    points = _points(rows, "users", MEASURES)
    if len({row["x"] for row in points}) < 2:
        raise NotDrawn("sessions were dealt to one number of users only")
    said = [f"{percent(row['recall'])} with {number(row['users'])}" for row in (rows[0], rows[-1])]
    says = (
        f"Recall is {' and '.join(said)} users, of {percent(rows[0]['recall_ceiling'])} that could be found."
    )
    return Drawing(_lines(points, "users"), says, f"Look-back {number(most)}.")


FIGURES: dict[str, Figure] = {
    "accuracy_look_back": Figure(
        "Right links by look-back",
        SECTION,
        f"{DEFINITION} by the number of last requests among which a parent is sought.",
        LIMITS,
        ("accuracy_look_back",),
        by_look_back,
    ),
    "accuracy_users": Figure(
        "Right links by number of users",
        SECTION,
        f"{DEFINITION} when the true sessions are dealt at random to so many users.",
        LIMITS + " Real users are less even.",
        ("accuracy_users",),
        by_users,
    ),
    **{
        f"accuracy_{dimension}": Figure(
            f"Right links by {said}",
            SECTION,
            f"{DEFINITION}, in bins of {said}.",
            LIMITS,
            ("accuracy_by",),
            partial(by_bin, dimension=dimension),
        )
        for dimension, said in SAID.items()
    },
}
