"""Qwen-Bailian JSON lines: seconds, `chat_id` and `parent_chat_id`, `hash_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.exports import texts
from servescope.exports.rules import (
    NO_PROMPT,
    ODD_OUTPUT,
    block_size,
    no_prompt,
    odd_output,
    relative_clock,
    relative_start_ns,
    source_ns,
)
from servescope.exports.target import Export
from servescope.kernels.forest import roots

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Batch, Trace

BLOCK_TOKENS = 16
HOLDS = (
    "source_id",
    "arrival_us",
    "request_type",
    "input_tokens",
    "output_tokens",
    "session_id",
    "parent_id",
    "turn",
    "block_ids",
)
ROOT = -1
Ints = npt.NDArray[np.int64]


def write(trace: Trace, path: Path) -> list[str]:
    """One line a request, in time order; ids are the source's where they are distinct whole numbers."""
    texts.clock_fits(trace)
    start = relative_start_ns(trace)
    ids = chat_ids(trace)
    with texts.open_output(path) as file:
        for batch, table in texts.pieces(trace, HOLDS):
            lines = texts.json_rows(_fields(batch, table, trace, ids, start))
            texts.write_texts(file, lines.filter(pa.array(~no_prompt(batch, trace))))
    return []


def _fields(
    batch: Batch, table: pa.Table, trace: Trace, ids: Ints | None, start: int
) -> list[tuple[str, pa.Array]]:
    own: Ints = np.arange(batch.start, batch.start + batch.rows)
    parent = batch["parent_id"].astype(np.int64)
    child = parent != schema.NULL_INT64
    if ids is not None:
        own, parent = ids[own], ids[np.where(child, parent, 0)]
    return [
        ("chat_id", pa.array(own).cast(pa.string())),
        ("parent_chat_id", pa.array(np.where(child, parent, ROOT)).cast(pa.string())),
        ("timestamp", texts.decimal_seconds(source_ns(batch, start))),
        ("input_length", texts.plain(table.column("input_tokens"))),
        ("output_length", texts.without(table.column("output_tokens"), odd_output(batch, trace))),
        ("type", texts.json_texts(table.column("request_type"))),
        ("turn", texts.plain(table.column("turn"))),
        ("hash_ids", texts.block_lists(table.column("block_ids"))),
    ]


def chat_ids(trace: Trace) -> Ints | None:
    """The source's ids as int64[rows], None where they are not all distinct whole numbers from 0."""
    if not trace.has("source_id"):
        return None
    pieces: list[Ints] = []
    for table in trace.arrow(["source_id"]):
        try:
            whole = table.column(0).cast(pa.int64())
        except pa.ArrowInvalid:
            return None
        same = pc.all(pc.equal(whole.cast(pa.string()), table.column(0)), skip_nulls=False).as_py()
        if whole.null_count or (len(whole) and not same):
            return None
        pieces.append(whole.to_numpy())
    ids = np.concatenate([np.zeros(0, np.int64), *pieces])
    return None if (ids < 0).any() or len(np.unique(ids)) != len(ids) else ids


def _whole(trace: Trace) -> list[str]:
    losses = [*relative_clock(trace), *block_size(trace, BLOCK_TOKENS)]
    if trace.has("source_id") and chat_ids(trace) is None:
        losses.append("source ids that are not distinct whole numbers (request ids are written)")
    return [*losses, *_sessions(trace)]


def _sessions(trace: Trace) -> list[str]:
    """Sessions that are no trees of parents, and their texts: the format has parents alone."""
    if not trace.has("session_id"):
        return []
    losses = ["the source's names of the sessions"] if trace.meta.session_names else []
    batches = list(trace.batches(["session_id", "parent_id"]))
    session, parent = (
        np.concatenate([np.zeros(0, np.int64), *(batch[name].astype(np.int64) for batch in batches)])
        for name in ("session_id", "parent_id")
    )
    root = roots(np.where(parent == schema.NULL_INT64, -1, parent))
    held = session != schema.NULL_INT64
    pairs = np.unique(np.stack([session[held], root[held]]), axis=1)
    split = pairs.shape[1] - len(np.unique(pairs[0]))
    if split or len(np.unique(pairs[1])) != pairs.shape[1]:
        losses.append("sessions that parents do not hold together (each tree of parents becomes one)")
    return losses


EXPORT = Export(
    "bailian",
    "Qwen-Bailian (JSON lines, seconds, 16-token blocks, parents)",
    frozenset(HOLDS),
    write,
    (NO_PROMPT, ODD_OUTPUT),
    _whole,
)
