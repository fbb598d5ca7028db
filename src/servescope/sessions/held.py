"""Sessions whose links are whole columns in memory: as the source states them, or from block ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.errors import UsageError, unknown_name
from servescope.kernels.forest import links as in_sessions
from servescope.sessions.links import NO_PARENT, Links, SessionOptions, empty_links, window_us
from servescope.sessions.rule import (
    CANDIDATES,
    LINK_FIELDS,
    PARENT,
    PAUSE,
    PREFIX,
    REQUEST,
    SESSION,
    TIED,
    TURN,
)
from servescope.sessions.spool import PIECE_ROWS
from servescope.sessions.stated import links as stated_columns
from servescope.sessions.summary import Found
from servescope.sessions.tally import Tally

if TYPE_CHECKING:
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
LACKING = {
    "stated": "no_session",
    "blocks": "no_block_ids",
}  # rule -> why a row inside the scope takes no part


@dataclass(frozen=True)
class Held:
    """Sessions of a trace in memory.

    links    of all rows
    unknown  bool[rows], the row has a parent whose tokens are not known
    found    what is counted of them
    """

    links: Links
    unknown: Mask
    found: Found


def in_scope(trace: Trace, options: SessionOptions) -> tuple[Mask, dict[str, int]]:
    """Rows of the chosen model and window, bool[rows], and how many are left out by either.

    Raises UsageError for a model that is not in the trace.
    """
    inside = np.ones(trace.rows, np.bool_)
    excluded = {}
    if options.model is not None:
        if not trace.has("model"):
            raise UsageError("--model cannot be chosen: the trace states no models. Leave it out.")
        code = trace.codes("model").get(options.model)
        if code is None:
            raise unknown_name("model", options.model, trace.names("model"))
        for batch in trace.batches(["model"]):
            inside[batch.start : batch.start + batch.rows] = batch["model"] == code
        excluded["other_model"] = int((~inside).sum())
    if options.window_days is not None:
        low, high = window_us(trace, options.window_days)
        for batch in trace.batches(["arrival_us"]):
            rows = slice(batch.start, batch.start + batch.rows)
            arrival = batch["arrival_us"].astype(np.int64, copy=False)
            inside[rows] &= (arrival >= low) & (arrival < high)
        excluded["outside_window"] = trace.rows - int(inside.sum()) - sum(excluded.values())
    return inside, excluded


def stated_links(trace: Trace, options: SessionOptions) -> Links:
    """Sessions as the source states them; where it states no parents, a turn continues the one before it.

    A parent that takes no part (another model, outside the window) is none. Turns are those stated, else
    places in the session. Raises UsageError where no sessions are stated, DataError for a parent that is
    no request of the trace.
    """
    if not trace.has("session_id"):
        raise UsageError(
            "the rule `stated` needs sessions that the source states, and it states none. Use --rule paper."
        )
    columns = stated_columns(trace).columns
    inside, _ = in_scope(trace, options)
    session = columns["session_id"]
    rows = np.flatnonzero(inside & (session != schema.NULL_INT64))
    links = empty_links(trace.rows, "stated")
    _, first, member = np.unique(session[rows], return_index=True, return_inverse=True)
    links.session[rows] = rows[first][member]
    previous, place = in_sessions(member.astype(np.int64))
    stated_turn = columns["turn"][rows]
    links.turn[rows] = np.where(stated_turn > 0, stated_turn, place)
    if trace.has("parent_id"):
        parent = columns["parent_id"][rows]
        parent = np.where(parent == schema.NULL_INT64, NO_PARENT, parent)
    else:
        parent = np.where(previous < 0, NO_PARENT, rows[previous])
    parent = np.where((parent >= 0) & (links.turn[parent] > 0), parent, NO_PARENT)
    links.parent[rows] = parent
    links.candidates[rows] = parent >= 0
    linked = rows[parent >= 0]
    before, answer = (columns[name][links.parent[linked]] for name in ("input_tokens", "output_tokens"))
    known = (before != schema.NULL_INT64) & (answer != schema.NULL_INT64)
    links.prefix_tokens[linked[known]] = before[known] + answer[known]
    return links


def held_sessions(trace: Trace, links: Links, options: SessionOptions) -> Held:
    """Count links that are in memory."""
    columns = stated_columns(trace).columns
    it, ot, end = (columns[name] for name in ("input_tokens", "output_tokens", "completed_us"))
    linked = links.parent >= 0
    parent = np.where(linked, links.parent, 0)
    unknown = linked & ((it[parent] == schema.NULL_INT64) | (ot[parent] == schema.NULL_INT64))
    no_end = ~linked | (end[parent] == schema.NULL_INT64)
    pause = np.where(no_end, schema.NULL_INT64, columns["arrival_us"] - np.where(no_end, 0, end[parent]))
    rows = np.flatnonzero(links.turn > 0)
    tally = Tally()
    for low in range(0, len(rows), PIECE_ROWS):
        own = rows[low : low + PIECE_ROWS]
        piece = np.empty((len(own), LINK_FIELDS), np.int64)
        piece[:, REQUEST], piece[:, SESSION], piece[:, PARENT] = own, links.session[own], links.parent[own]
        piece[:, PREFIX] = np.where(unknown[own], schema.NULL_INT64, links.prefix_tokens[own])
        piece[:, TURN], piece[:, CANDIDATES], piece[:, TIED] = links.turn[own], links.candidates[own], 0
        piece[:, PAUSE] = pause[own]
        tally.add(piece, it[own])
    _, of_session = np.unique(links.session[rows], return_counts=True)
    _, excluded = in_scope(trace, options)
    excluded[LACKING[links.rule]] = trace.rows - len(rows) - sum(excluded.values())
    lengths = np.unique(of_session, return_counts=True)
    return Held(links, unknown, Found(links.rule, tally, lengths, excluded))
