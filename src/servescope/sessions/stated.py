"""Sessions as the source states them: turns, think times, gaps, and what each turn adds.

A follow-up is a request whose parent is in the trace. Whole columns are held, 44 bytes a row:
a parent may stand anywhere before, or even after, its follow-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.histogram import log_bins
from servescope.parents import follow_ups
from servescope.tables import histogram_table, ratio, stacked, table

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
I64, F64 = pa.int64(), pa.float64()
COLUMNS = (
    "arrival_us",
    "session_id",
    "parent_id",
    "turn",
    "input_tokens",
    "output_tokens",
    "completed_us",
)
QUANTILES = (0.1, 0.5, 0.9, 0.99)
SUMMARY = (
    "Stated sessions. Turns of a session are its requests in the trace; quantiles are exact, linear "
    "interpolation. cut_at_start: the first request in the trace is stated to be a later turn. branches: "
    "follow-ups beyond the first of one parent."
)
TURNS = "Sessions by number of requests in the trace."
GAPS = (
    "think_time: arrival minus the end of the parent; start_gap: arrival minus the arrival of the parent. "
    "Overlapping turns (below 0) and those without a known end of the parent are counted and left out of n."
)
GROWTH = (
    "New tokens of a follow-up = input - parent's input - parent's output. shortened: this is below 0, the "
    "history was cut, nothing is computed; unknown: a count, or the parent of a later turn, is missing. "
    "new_tokens takes first turns whole; new_mean to new_p99 are of follow-ups."
)


@dataclass(frozen=True)
class Links:
    """Columns of all requests, and the follow-ups among them.

    columns   name -> int64[rows], `schema.NULL_INT64` for null
    children  int64[n], request ids of follow-ups
    parents   int64[n], request ids of their parents
    """

    columns: dict[str, Ints]
    children: Ints
    parents: Ints


def links(trace: Trace) -> Links:
    """Read what sessions need of a trace; columns that it lacks are null throughout.

    Raises DataError where a stated parent is no request of the trace.
    """
    wanted = [name for name in COLUMNS if name == "arrival_us" or trace.has(name)]
    columns = {name: np.full(trace.rows, schema.NULL_INT64) for name in COLUMNS}
    for batch in trace.batches(wanted):
        rows = slice(batch.start, batch.start + batch.rows)
        for name in wanted:
            values = batch[name].astype(np.int64, copy=False)
            null = values == schema.BY_NAME[name].null
            columns[name][rows] = np.where(null, schema.NULL_INT64, values)
    children = follow_ups(columns["parent_id"], trace.rows)
    return Links(columns, children, columns["parent_id"][children])


def think_times(found: Links) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """End of the parent to arrival, for each follow-up: int64[n] microseconds, bool[n] known.

    Negative: the user did not wait for the answer. Source: design, case 29.
    """
    ends = found.columns["completed_us"][found.parents]
    known = ends != schema.NULL_INT64
    return found.columns["arrival_us"][found.children] - np.where(known, ends, 0), known


def new_tokens(found: Links) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Tokens that each follow-up adds to the history: int64[n], bool[n] known.

    Negative: the history was shortened. Source: design, cases 26 and 27.
    """
    it, ot = found.columns["input_tokens"], found.columns["output_tokens"]
    parts = [it[found.children], it[found.parents], ot[found.parents]]
    known = np.logical_and.reduce([part != schema.NULL_INT64 for part in parts])
    own, before, answer = (np.where(known, part, 0) for part in parts)
    return own - before - answer, known


def stated_sessions(trace: Trace) -> tuple[list[Table], list[str]]:
    """The tables of stated sessions and notes for the reader; no table where none are stated.

    Tables: session_summary, turns, turn_gap_stats, think_time, start_gap, growth, new_tokens.
    """
    if not trace.has("session_id"):
        return [], ["sessions are left out: the source does not state them"]
    found = links(trace)
    tables = _sessions(found)
    if not trace.has("parent_id"):
        return tables, ["think times and growth are left out: the source does not state parents"]
    think, known = think_times(found)
    start = found.columns["arrival_us"][found.children] - found.columns["arrival_us"][found.parents]
    always = np.ones(len(start), np.bool_)
    rows = [_gap_row("think_time", think, known), _gap_row("start_gap", start, always)]
    measured = ("mean_s", "p10_s", "p50_s", "p90_s", "p99_s")
    counted = ("follow_ups", "n", "overlapping", "unknown")
    columns = {"metric": pa.string(), **dict.fromkeys(counted, I64), **dict.fromkeys(measured, F64)}
    tables += [
        stacked("turn_gap_stats", columns, rows, GAPS),
        _histogram("think_time", think[known & (think >= 0)] / 1e6, GAPS),
        _histogram("start_gap", start[start >= 0] / 1e6, GAPS),
        *_growth(found),
    ]
    return tables, _notes(think, known, *new_tokens(found))


def _notes(think: Ints, known: npt.NDArray[np.bool_], new: Ints, counted: npt.NDArray[np.bool_]) -> list[str]:
    overlapping = int((think[known] < 0).sum())
    shortened = int((new[counted] < 0).sum())
    plural = ["s" if count != 1 else "" for count in (overlapping, shortened)]
    notes = [
        (overlapping, f"{overlapping:,} overlapping turn{plural[0]}: sent before the parent's answer ended"),
        (
            shortened,
            f"{shortened:,} follow-up{plural[1]} with a shortened history: no new tokens computed",
        ),
    ]
    return [text for count, text in notes if count]


def _histogram(name: str, values: npt.NDArray[np.float64], doc: str) -> Table:
    return histogram_table(name, (), [((), log_bins(values.astype(np.float64)))], doc)


def _quantiles(values: npt.NDArray[Any]) -> list[float | None]:
    if not len(values):
        return [None] * len(QUANTILES)
    return [float(q) for q in np.quantile(values, QUANTILES)]


def _gap_row(metric: str, gaps: Ints, known: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
    waited = gaps[known & (gaps >= 0)]
    n = len(waited)
    overlapping = int((known & (gaps < 0)).sum())
    mean = ratio(int(waited.sum()) / 1e6, n)
    counts = (len(gaps), n, overlapping, len(gaps) - int(known.sum()))
    return (metric, *counts, mean, *_quantiles(waited / 1e6))


def _sessions(found: Links) -> list[Table]:
    session, turn = found.columns["session_id"], found.columns["turn"]
    rows = np.flatnonzero(session != schema.NULL_INT64)
    _, first, counts = np.unique(session[rows], return_index=True, return_counts=True)
    sessions, single = len(counts), int((counts == 1).sum())
    fans = np.unique(found.parents, return_counts=True)[1]
    stated_most = int(turn.max(initial=schema.NULL_INT64))
    values: dict[str, int | float | None] = {
        "sessions": sessions,
        "requests": len(rows),
        "requests_without_session": len(session) - len(rows),
        "turns_mean": ratio(len(rows), sessions),
        **{
            f"turns_{name}": float(np.quantile(counts, q)) if sessions else None
            for name, q in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
        "turns_max": int(counts.max()) if sessions else None,
        "single_turn_sessions": single,
        "single_turn_fraction": ratio(single, sessions),
        "cut_at_start_sessions": int((turn[rows[first]] > 1).sum()),
        "branching_parents": int((fans > 1).sum()),
        "branches": int((fans - 1).sum()),
        "stated_turn_max": stated_most if stated_most > 0 else None,
    }
    floats = ("turns_mean", "turns_median", "turns_p90", "turns_p99", "single_turn_fraction")
    kinds = {name: F64 if name in floats else I64 for name in values}
    turns, of = np.unique(counts, return_counts=True)
    return [
        stacked("session_summary", kinds, [list(values.values())], SUMMARY),
        table("turns", {"turns": (I64, turns), "sessions": (I64, of)}, TURNS),
    ]


def _growth(found: Links) -> list[Table]:
    session, turn, it = (found.columns[name] for name in ("session_id", "turn", "input_tokens"))
    inside = session != schema.NULL_INT64
    root = inside & (found.columns["parent_id"] == schema.NULL_INT64)
    first = root & (turn <= 1)  # a null turn is below 1 too
    cut = int((root & ~first).sum())
    new, known = new_tokens(found)
    added = new[known & (new >= 0)]
    given = it != schema.NULL_INT64
    whole = int(it[first & given].sum())
    some = bool(given.any())
    values: dict[str, int | float | None] = {
        "requests": int(inside.sum()),
        "first_turns": int(first.sum()),
        "follow_ups": len(new),
        "input_tokens": int(it[inside & given].sum()) if some else None,
        "new_tokens": whole + int(added.sum()) if some else None,
        "new_known": len(added) + int((first & given).sum()),
        "shortened": int((known & (new < 0)).sum()),
        "unknown": cut + int((first & ~given).sum()) + len(new) - int(known.sum()),
        "new_mean": ratio(int(added.sum()), len(added)),
        **dict(zip(("new_p10", "new_p50", "new_p90", "new_p99"), _quantiles(added), strict=True)),
    }
    measured = ("new_mean", "new_p10", "new_p50", "new_p90", "new_p99")
    kinds = {name: F64 if name in measured else I64 for name in values}
    return [
        stacked("growth", kinds, [list(values.values())], GROWTH),
        _histogram("new_tokens", added.astype(np.float64), GROWTH),
    ]
