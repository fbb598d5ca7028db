"""Figures of rebuilt sessions: turns, what a turn adds, think time, and how sure the links are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from servescope.report.charts_lengths import reach_chart, reached
from servescope.report.charts_sessions import turns_of
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, colour, number, percent

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

SECTION = "Rebuilt sessions"
GROUPS = {"turn 2": (2, 2), "turns 3 to 5": (3, 5), "turns 6 to 10": (6, 10), "turns from 11": (11, 10**9)}
SHOWN_CANDIDATES = 30
ONE, TIED = "one fitted best", "several fitted equally well"
GUESSED = "Sessions are guessed from lengths and order: a link may join unrelated requests. "
SKETCHED = "100 bins a decade, so a value is good to 2.4%."


def _known(saved: Saved, table: str) -> list[Row]:
    """Bins with edges, as rows with bin_low, bin_high, count."""
    rows = saved.rows(table)
    return [{**row, "count": row["turns"]} for row in rows if row["bin_low"] is not None]


def _middle(bins: list[Row]) -> float:
    """Value in whose bin the middle count lies."""
    total, seen = sum(row["count"] for row in bins), 0
    for row in sorted(bins, key=lambda row: float(row["bin_low"])):
        seen += row["count"]
        if 2 * seen >= total:
            return float(row["bin_low"] + row["bin_high"]) / 2
    return 0.0


def turns(saved: Saved) -> Drawing:
    """Share of rebuilt sessions with at least so many turns."""
    return turns_of(saved.rows("rebuilt_session_turns"))


def growth(saved: Saved) -> Drawing:
    """Share of turns that add at most so many tokens, by turn."""
    rows: list[Row] = []
    bins = _known(saved, "rebuilt_prompt_growth")
    for name, (first, last) in GROUPS.items():
        own = [row for row in bins if first <= row["turn"] <= last]
        by_bin: dict[tuple[float, float], int] = {}
        for row in own:
            edges = row["bin_low"], row["bin_high"]
            by_bin[edges] = by_bin.get(edges, 0) + row["count"]
        rows += reached([{"bin_low": a, "bin_high": b, "count": n} for (a, b), n in by_bin.items()], name)
    if len({row["x"] for row in rows}) < 2:
        raise NotDrawn(
            "no request continues another" if not rows else "all turns add the same number of tokens"
        )
    drawn = reach_chart(rows, GROUPS, x="tokens that a turn adds", y="share of linked turns ≤ x", share=".1%")
    says = (
        f"A turn adds about {number(_middle(bins))} tokens to its parent's prompt and answer in the median "
        f"({number(sum(row['count'] for row in bins))} linked turns)."
    )
    return Drawing(drawn, says)


def think_time(saved: Saved) -> Drawing:
    """Share of turns that begin within a time after their parent's end; overlapping ones count as below 0."""
    bins = _known(saved, "rebuilt_think_time")
    rows = reached(bins, "linked turns")
    if not bins:
        raise NotDrawn("no linked turn has a parent whose end is known")
    if len({row["x"] for row in rows}) < 2:
        raise NotDrawn("hardly any turn begins after the end of its parent")
    known = sum(row["count"] for row in bins)
    early = sum(row["count"] for row in bins if row["bin_low"] < 0)
    unknown = sum(row["turns"] for row in saved.rows("rebuilt_think_time")) - known
    drawn = reach_chart(
        rows, ["linked turns"], x="seconds after the parent's end", y="share of linked turns ≤ x", share=".1%"
    )
    says = (
        f"A turn begins {number(_middle(bins))} s after the end of its parent in the median; "
        f"{percent(early / known)} begin before it."
    )
    remark = (
        f"The parent's end is unknown for {number(unknown)} turns, which are left out." if unknown else ""
    )
    return Drawing(drawn, says, remark)


def ambiguity(saved: Saved) -> Drawing:
    """Linked turns by how many requests fitted as their parent."""
    found = saved.rows("rebuilt_link_ambiguity")
    total = sum(row["turns"] for row in found)
    if not total:
        raise NotDrawn("no request continues another")
    rows = []
    for row in found[:SHOWN_CANDIDATES]:
        for name, count in ((ONE, row["turns"] - row["tied_turns"]), (TIED, row["tied_turns"])):
            if count:
                rows.append({"x": str(row["candidates"]), "y": round(count / total, 5), "series": name})
    names = [name for name in (ONE, TIED) if any(row["series"] == name for row in rows)]
    drawn = (
        chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("x:O", title="requests that fitted as parent", sort=None).axis(labelAngle=0),
            y=alt.Y("y:Q", title="share of linked turns").axis(format="%"),
            color=colour(names),
            tooltip=["series:N", "x:O", alt.Tooltip("y:Q", format=".1%")],
        )
    )
    alone = sum(row["turns"] for row in found if row["candidates"] == 1)
    tied = sum(row["tied_turns"] for row in found)
    says = (
        f"Of {number(total)} linked turns {percent(alone / total)} had one candidate; for "
        f"{percent(tied / total)} the best fit was shared and the oldest was taken."
    )
    more = found[SHOWN_CANDIDATES:]
    remark = (
        f"{number(sum(row['turns'] for row in more))} turns with more candidates are not drawn."
        if more
        else ""
    )
    return Drawing(drawn, says, remark)


FIGURES: dict[str, Figure] = {
    "rebuilt_turns": Figure(
        "Turns of a rebuilt session",
        SECTION,
        "Share of sessions with at least so many requests, the first included; axes logarithmic. A request "
        "continues the longest shorter one of its user, model and endpoint among their last ones.",
        GUESSED + "Sessions cut by the ends of the trace or by renamed users count with what is left.",
        ("rebuilt_session_turns",),
        turns,
    ),
    "rebuilt_growth": Figure(
        "What a turn adds",
        SECTION,
        "Added tokens = input - parent's input - parent's output; share of linked turns with at most x, by "
        "turn. " + SKETCHED,
        GUESSED + "The rule takes the tightest fit, so what a turn really adds is, if anything, more.",
        ("rebuilt_prompt_growth",),
        growth,
    ),
    "rebuilt_think_time": Figure(
        "Think time",
        SECTION,
        "Share of linked turns that begin at most x seconds after the end of their parent; those that begin "
        "before it are counted at the left edge. " + SKETCHED,
        GUESSED + "A turn that begins before its parent ended cannot have been written in answer to it.",
        ("rebuilt_think_time",),
        think_time,
    ),
    "rebuilt_ambiguity": Figure(
        "How sure the links are",
        SECTION,
        "Linked turns by the number of requests that fitted as parent: not continued yet, of the same "
        "endpoint, and shorter.",
        "One candidate is no proof that it is the parent; the true one may not be in the trace.",
        ("rebuilt_link_ambiguity",),
        ambiguity,
    ),
}
