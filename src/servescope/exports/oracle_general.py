"""libCacheSim's oracleGeneral: a session is an object, its size the prompt, next accesses from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.errors import UsageError
from servescope.exports import texts
from servescope.exports.rules import NO_PROMPT, no_prompt, source_ns
from servescope.exports.target import Export, Loss, Mask
from servescope.kernels.forest import links, next_access

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Batch, Trace

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
NS_PER_S = 1_000_000_000
LARGEST_TIME_S = 2**32 - 1
HOLDS = ("arrival_us", "session_id", "parent_id", "turn", "input_tokens")


def write(trace: Trace, path: Path) -> list[str]:
    """One record a request, in time order; times are cut to whole seconds.

    Raises UsageError where a time does not fit 32 bits of seconds.
    """
    texts.clock_fits(trace)
    sessions = _sessions(trace)
    ids = _object_ids(trace)
    later = next_access(sessions)
    start, written = trace.meta.origin.first_ns, 0
    with texts.open_output(path) as file:
        for batch in trace.batches(["arrival_us", "input_tokens", "session_id"]):
            keep = ~_left_out(batch, trace)
            times = source_ns(batch, start)[keep] // NS_PER_S
            if len(times) and not (times[0] >= 0 and times[-1] <= LARGEST_TIME_S):
                raise UsageError("times do not fit the 32 bits of seconds from 1970 that oracle_general has.")
            records = np.zeros(len(times), RECORD)
            session = batch["session_id"].astype(np.int64)[keep]
            records["time"], records["size"] = times, batch["input_tokens"][keep]
            records["object"] = session.astype(np.uint64) if ids is None else ids[session]
            records["next"] = later[written : written + len(times)]
            file.write(records.tobytes())
            written += len(times)
    return []


def _left_out(batch: Batch, trace: Trace) -> Mask:
    return np.asarray(no_prompt(batch, trace) | _no_session(batch, trace))


def _no_session(batch: Batch, trace: Trace) -> Mask:
    return np.asarray(batch["session_id"] == schema.NULL_INT64)


def _between_s(batch: Batch, trace: Trace) -> Mask:
    return np.asarray(source_ns(batch, trace.meta.origin.first_ns) % NS_PER_S != 0)


def _sessions(trace: Trace) -> npt.NDArray[np.int64]:
    """Sessions of the rows that are written, as dense codes."""
    pieces = [
        batch["session_id"].astype(np.int64)[~_left_out(batch, trace)]
        for batch in trace.batches(["input_tokens", "session_id"])
    ]
    joined = np.concatenate([np.zeros(0, np.int64), *pieces])
    return np.unique(joined, return_inverse=True)[1].astype(np.int64)


def _object_ids(trace: Trace) -> npt.NDArray[np.uint64] | None:
    """The source's names of the sessions where all are 64-bit numbers, None otherwise."""
    if not trace.meta.session_names:
        return None
    names = pa.array(trace.meta.session_names, pa.string())
    try:
        whole = names.cast(pa.uint64())
    except pa.ArrowInvalid:
        return None
    return whole.to_numpy() if whole.cast(pa.string()).equals(names) else None


def _whole(trace: Trace) -> list[str]:
    if not trace.has("session_id"):
        raise UsageError(
            "oracle_general needs sessions, one object each, and this trace states none. Rebuild them first."
        )
    losses = []
    if trace.meta.origin.kind in ("nominal", "none"):
        losses.append(f"that the clock is {trace.meta.origin.kind}")
    if trace.meta.session_names and _object_ids(trace) is None:
        losses.append("the source's names of the sessions (numbers are written)")
    return [*losses, *_turns(trace)]


def _turns(trace: Trace) -> list[str]:
    """Parents and turns that are not those of a plain row of accesses to one object."""
    names = ("session_id", "parent_id", "turn")
    batches = list(trace.batches(names))
    session, parent, turn = (
        np.concatenate([np.zeros(0, np.int64), *(batch[name].astype(np.int64) for batch in batches)])
        for name in names
    )
    codes = np.unique(session, return_inverse=True)[1].astype(np.int64)
    previous, count = links(codes)
    stated = parent != schema.NULL_INT64
    odd = int((stated & (parent != previous)).sum()) + int(
        ((turn != schema.NULL_INT32) & (turn != count)).sum()
    )
    return [f"{odd:,} parents or turns that are not simply the session's previous request"] if odd else []


EXPORT = Export(
    "oracle_general",
    "libCacheSim oracleGeneral (binary, one object a session)",
    frozenset(HOLDS),
    write,
    (
        Loss(
            ("arrival_us",),
            _between_s,
            "{n} arrival time that is no whole second (it is cut)",
            "{n} arrival times that are no whole seconds (they are cut)",
        ),
        NO_PROMPT,
        Loss(
            ("session_id",),
            _no_session,
            "{n} request without a session (it is left out)",
            "{n} requests without a session (they are left out)",
            drops=True,
        ),
    ),
    _whole,
)
