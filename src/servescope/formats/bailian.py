"""Qwen-Bailian traces: JSON lines, seconds, blocks of 16 tokens, session trees by `parent_chat_id`.

Units: `timestamp` seconds from the trace's start. Ids are hashed after the chat template.
Source: the Qwen-Bailian usage traces (KVCache in the Wild, ATC'25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from servescope import schema
from servescope.formats.columns import Caster, Clock, Seen, block_lists, counts, refuse_repeats
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import JsonRows, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

BLOCK_TOKENS = 16
KEYS = {"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length"}


class Row(msgspec.Struct):
    """One line; `parent_chat_id` -1 is a root."""

    chat_id: int
    parent_chat_id: int
    timestamp: int | float
    input_length: int | float
    output_length: int | float | None = None
    type: str | None = None
    turn: int | None = None
    hash_ids: list[int] | None = None


def detect(sample: Sample) -> str | None:
    """Keys of Bailian."""
    if not sample.objects or not all(item.keys() >= KEYS for item in sample.objects):
        return None
    return "JSON lines with chat_id, parent_chat_id, timestamp, input_length, output_length"


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of a Bailian file; times in seconds unless declared otherwise."""
    unit = context.unit_of("timestamp", "s")
    context.block_size(BLOCK_TOKENS)
    context.decide("sessions are the trees of parent_chat_id, turns are as stated")
    clock = Clock()
    seen: Seen = context.state.setdefault("chat_ids", {})
    for piece in read_rows(source, context, Row, Row(-1, -1, 0, 1)):
        yield _chunk(source, context, piece, clock, unit, seen)


def _chunk(
    source: Source,
    context: Context,
    piece: JsonRows[Row],
    clock: Clock,
    unit: str,
    seen: Seen,
) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    rows = piece.rows
    own = _ids(caster, "chat_id", [row.chat_id for row in rows])
    parent = _ids(caster, "parent_chat_id", [row.parent_chat_id for row in rows])
    times = clock.numbers(caster, "timestamp", [row.timestamp for row in rows], unit)
    inputs = counts(caster, "input_length", [row.input_length for row in rows], least=1, required=True)
    columns = {
        "time_ns": times,
        "input_tokens": inputs,
        "output_tokens": counts(caster, "output_length", [row.output_length for row in rows]),
        "request_type": [row.type for row in rows],
        "turn": counts(caster, "turn", [row.turn for row in rows], least=1),
        "source_id": own.astype(str).tolist(),
        "own_key": own,
        "parent_key": np.where(parent == -1, schema.NULL_INT64, parent),
    }
    assert context.block_tokens
    flat, lengths = block_lists(
        caster, "hash_ids", [row.hash_ids for row in rows], inputs, context.block_tokens
    )
    refuse_repeats(caster, "chat_id", own.tolist(), seen)
    return Chunk(piece.lines, columns, clock.base_ns or 0, flat, lengths, piece.faults)


def _ids(caster: Caster, field: str, values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        for index, value in enumerate(values):
            if not -(2**63) < value < 2**63:
                caster.bad(index, field, value, "does not fit in 64 bits", "bad_id")
                values[index] = -1
        return np.array(values, np.int64)


FORMAT = Format("bailian", "Qwen-Bailian (JSON lines, 16-token blocks, session trees)", detect, chunks)
