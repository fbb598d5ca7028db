"""The unit `session`: one object a session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from servescope.cache.choice import BOUND, parse_choice
from servescope.cache.limits import session_limits
from servescope.cache.model_tables import of_model
from servescope.cache.object_curve import lru_curve, shrinking_accesses
from servescope.cache.objects import ALL, ObjectWorkload, object_workload, told
from servescope.cache.policies import OBJECT_POLICIES
from servescope.cache.simulate import prepare
from servescope.cache.trust import trust_of_sessions
from servescope.cache.units import Unit
from servescope.sessions.links import session_links
from servescope.tables import joined, ratio, stacked, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.options import CacheOptions
    from servescope.cache.sweep_tables import Swept
    from servescope.result import Table
    from servescope.sessions.links import SessionOptions
    from servescope.trace import Trace

I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
MOST_ROWS = 20_000_000  # of a trace whose logged hits are compared: they are held in memory
EXACT, REPLAYED = "reuse_distance", "replay"
WORKLOAD = {
    "model": TEXT,
    "rule": TEXT,
    "requests": I64,
    "warmup_requests": I64,
    "sessions": I64,
    "users": I64,
    "input_tokens": I64,
    "prefix_tokens": I64,
    "working_set_tokens": I64,
    "largest_tokens": I64,
    "shrinking_requests": I64,
    "request_hit_ceiling": F64,
    "token_hit_ceiling": F64,
    "heaviest_share": F64,
}
WORKLOAD_DOC = (
    "What was replayed. prefix_tokens: input that the session's requests before could have left in a cache. "
    "working_set_tokens: first input of every session, of which capacities in percent are "
    "parts. ceilings: ratios of a cache without limit, after the warm-up. shrinking_requests: smaller than "
    "the request before in their session. heaviest_share: requests of the user with most of them, after the "
    "warm-up."
)
DETAILS = {"policy": TEXT, "capacity_tokens": I64, "name": TEXT, "value": F64, "model": TEXT}
DETAILS_DOC = (
    "What policies tell of themselves at the end of a replay: how often one trained, on how many labels."
)
CURVE_DOC = (
    "Hits of LRU by capacity, after the warm-up. method reuse_distance: exact from this capacity up to that "
    "of the next row; replay: counted at this capacity alone, below the largest request, where reuse "
    "distances do not decide."
)


def workload(
    trace: Trace, rows: SessionOptions, options: CacheOptions, **running: Any
) -> tuple[ObjectWorkload, list[str]]:
    """The accesses of one model and window, and notes on what is in them."""
    made = object_workload(
        trace,
        rows,
        credit=options.credit or "prefix",
        warmup=options.warmup,
        seed=options.seed,
        **running,
    )
    return made, _notes(made, trace, rows)


def _notes(made: ObjectWorkload, trace: Trace, rows: SessionOptions) -> list[str]:
    who = "" if made.name == ALL else f"{made.name}: "
    how = (
        "sessions are those that the trace states"
        if made.rule == "stated"
        else f"sessions are rebuilt by the rule {made.rule} (look-back {rows.look_back})"
        if made.rule == "paper"
        else f"sessions are rebuilt by the rule {made.rule}"
    )
    notes = [f"{who}{how}"]
    if out := sum(made.left_out.values()):
        counts = f"{made.rows:,} of {made.rows + out:,} requests are replayed"
        notes.append(f"{who}{counts}; left out: {told(made.left_out)}")
    if made.name == ALL and trace.has("model") and (models := len(trace.names("model"))) > 1:
        notes.append(
            f"sessions of {models:,} models share the cache, a token of each counting the same; --model NAME "
            "takes one model apart"
        )
    return notes


def curve(workloads: Sequence[ObjectWorkload], sizes: Sequence[Sequence[Size]]) -> tuple[Table, list[str]]:
    """Table `curve`: LRU by reuse distances where they are exact, else by replays at the sizes asked for."""
    pieces, notes = [], []
    for made, asked in zip(workloads, sizes, strict=True):
        largest = int(made.requests.sizes.max())
        below = sorted({size.tokens for size in asked if size.tokens < largest})
        pieces += [_replayed(made, tokens) for tokens in below]
        pieces.append((made.name, EXACT, *lru_curve(made.requests, made.credits, first=made.first)))
        if below:
            notes.append(
                f"{made.name}: LRU's curve is exact from the largest request on, {largest:,} tokens; "
                f"{len(below)} smaller capacities are replayed one by one (column method)"
            )
    lengths = [len(piece[2]) for piece in pieces]
    named = {
        name: np.repeat(np.array([piece[place] for piece in pieces], object), lengths)
        for place, name in enumerate(("model", "method"))
    }
    counts = {
        name: np.concatenate([np.zeros(0, np.int64), *(piece[place + 2] for piece in pieces)])
        for place, name in enumerate(("capacity_tokens", "request_hits", "hit_tokens"))
    }
    columns = {
        "policy": (TEXT, ["lru"] * sum(lengths)),
        **{name: (I64, values) for name, values in counts.items()},
        **{name: (TEXT, named[name]) for name in ("method", "model")},
    }
    return table("curve", columns, CURVE_DOC), notes


def _replayed(made: ObjectWorkload, tokens: int) -> tuple[Any, ...]:
    from servescope.cache.capacity import Size

    size = Size(tokens, None, None, ())
    counted = made.replay(parse_choice("lru"), size, seed=0, tell=lambda requests: None)
    hits, saved = counted.totals.sum(axis=1)
    return made.name, REPLAYED, np.array([tokens]), np.array([hits]), np.array([saved])


def about(sweeps: Sequence[Swept]) -> list[Table]:
    """Tables `workload`, one row each, `limits`, and `policy_details` where policies tell of themselves."""
    made = [stacked("workload", WORKLOAD, [_about(swept.workload) for swept in sweeps], WORKLOAD_DOC)]
    details = [
        [choice.text, at.tokens, name, float(value), swept.workload.name]
        for swept in sweeps
        for policy, choice in enumerate(swept.choices)
        for size, at in enumerate(swept.sizes)
        for name, value in swept.of(policy, size).details.items()
    ]
    return [
        *made,
        *([stacked("policy_details", DETAILS, details, DETAILS_DOC)] if details else []),
        session_limits(sweeps),
    ]


def _about(made: Any) -> list[Any]:
    requests, first = made.requests, made.first
    again = np.ones(made.rows, np.bool_)
    again[np.unique(requests.objects, return_index=True)[1]] = False
    again[:first] = False
    counted, tokens = made.rows - first, int(requests.sizes[first:].sum())
    bases = made.bases["requests"]
    return [
        made.name,
        made.rule,
        made.rows,
        first,
        requests.known,
        made.clusters.members if made.clusters.kind == "user" else None,
        int(requests.sizes.sum()),
        int(made.prefix.sum()),
        made.whole,
        int(requests.sizes.max()),
        shrinking_accesses(requests),
        ratio(int(again.sum()), counted),
        ratio(int(made.credits[again].sum()), tokens),
        ratio(int(bases[made.clusters.heaviest]), counted) if made.clusters.kind == "user" else None,
    ]


def beside(
    trace: Trace,
    workloads: Sequence[ObjectWorkload],
    sizes: Sequence[Sequence[Size]],
    options: CacheOptions,
) -> tuple[list[Table], list[str]]:
    """Table `trust`: what the source logged as cached beside the prefixes of its sessions."""
    if not trace.has("cached_tokens"):
        return [], []
    if trace.rows > MOST_ROWS:
        return [], [
            f"logged cached tokens are not compared: the trace has {trace.rows:,} requests, more than "
            f"{MOST_ROWS:,}; `servescope sessions --window FROM:TO -o FILE` cuts a part out"
        ]
    tables, notes = [], []
    for made in workloads:
        asked = replace(options.sessions, model=None if made.name == ALL else made.name)
        found = trust_of_sessions(trace, session_links(trace, asked))
        if found is not None:
            tables.append(of_model(found.table, made.name))
            notes += found.notes
    return joined(tables), notes


UNIT = Unit(
    "session",
    OBJECT_POLICIES,
    ("fifo", "lru", "s3fifo", "sieve", "gdsf", "belady", BOUND),
    BOUND,
    prepare,
    workload,
    curve,
    about,
    beside,
)
