"""Whether a request is followed by a next turn: by its turn and type, as stated or by the block ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.jit import kernel
from servescope.tables import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import PromptTrace
    from servescope.result import Table

Ints = npt.NDArray[np.int64]
MOST_TURNS = 50
COLUMNS = {
    "request_type": pa.string(),
    "turn": pa.int64(),
    "requests": pa.int64(),
    "followed": pa.int64(),
    "probability": pa.float64(),
}
DOC = (
    f"Requests of a turn (from {MOST_TURNS} on together) and how many of them at least one request "
    "continues; * = all types. A follow-up after the end of the trace is not seen."
)


class Links(NamedTuple):
    """Which request continues which.

    parents  int64[n], place of the request that each one continues, -1 for none
    turns    int64[n], from 1
    source   "stated" or "block ids"
    """

    parents: Ints
    turns: Ints
    source: str


def links_of(found: PromptTrace) -> Links:
    """Stated parents, else those of the rule `blocks`; stated turns where all are, else by the parents."""
    stated = found.columns.get("parent_id")
    if stated is None or not bool((stated >= 0).any()):
        turns = found.columns.get("turn")
        if turns is not None and len(turns) and bool((turns == 1).all()):
            return Links(np.full(len(turns), -1, np.int64), turns.astype(np.int64), "stated")
        parents, derived = found.derived
        return Links(parents, derived.astype(np.int64), "block ids")
    parents = found.stated_parents
    turns = found.columns.get("turn")
    if turns is not None and bool((turns > 0).all()):
        return Links(parents, turns.astype(np.int64), "stated")
    return Links(parents, _turns(parents), "stated")


@kernel
def _turns(parents: Ints) -> Ints:
    """int64[n]: 1 without a parent, else one more than the parent's, wherever in the trace that stands."""
    turns = np.zeros(len(parents), np.int64)
    for request in range(len(parents)):
        above, steps = request, 0
        while above >= 0 and turns[above] == 0 and steps <= len(parents):
            above = parents[above]
            steps += 1
        turn = steps + (turns[above] if above >= 0 else 0)
        above = request
        while above >= 0 and turns[above] == 0:
            turns[above] = turn
            turn -= 1
            above = parents[above]
    return turns


def alone(links: Links) -> npt.NDArray[np.bool_]:
    """bool[n]: requests that continue none and that none continues."""
    single = links.parents < 0
    single[links.parents[links.parents >= 0]] = False
    return single


def next_turn_table(
    links: Links, arrival_us: Ints, kinds: npt.NDArray[np.int32], names: Sequence[str]
) -> tuple[Table, list[str]]:
    """Table `next_turn_probability` and notes. kinds: int32[n], request types, -1 for none."""
    followed = np.zeros(len(kinds), np.bool_)
    children = np.flatnonzero(links.parents >= 0)
    followed[links.parents[children]] = True
    turns = np.minimum(links.turns, MOST_TURNS)
    rows = []
    scopes = [(name, kinds == code) for code, name in enumerate(names)]
    if bool((kinds < 0).any()) and names:
        scopes.append(("untyped", kinds < 0))
    for name, chosen in [*scopes, ("*", np.ones(len(kinds), np.bool_))]:
        requests = np.bincount(turns[chosen], minlength=MOST_TURNS + 1)
        went_on = np.bincount(turns[chosen & followed], minlength=MOST_TURNS + 1)
        for turn in np.flatnonzero(requests).tolist():
            many, more = int(requests[turn]), int(went_on[turn])
            rows.append([name, turn, many, more, more / many])
    notes = []
    if links.source == "block ids":
        notes.append("next turns are derived from the block ids: the trace states no parents")
    waits = arrival_us[children] - arrival_us[links.parents[children]]
    if len(waits):
        wait = float(np.quantile(waits, 0.9))
        late = int((arrival_us[-1] - arrival_us < wait).sum())
        notes.append(
            f"90 % of next turns come within {wait / 1e6:,.1f} s; {late:,} of {len(kinds):,} requests are "
            "closer than that to the end of the trace, so next_turn_probability is somewhat too low"
        )
    return stacked("next_turn_probability", COLUMNS, rows, DOC), notes
