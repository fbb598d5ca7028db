"""Mooncake FAST'25 traces: JSON lines, milliseconds, blocks of 512 tokens, chained ids.

Units: `timestamp` milliseconds. Source: kvcache-ai/Mooncake, FAST25-release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from servescope.formats.columns import Caster, Clock, block_lists, counts
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import JsonRows, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

BLOCK_TOKENS = 512
KEYS = {"timestamp", "input_length", "output_length"}


class Row(msgspec.Struct):
    """One line."""

    timestamp: int | float
    input_length: int | float
    output_length: int | float | None = None
    hash_ids: list[int] | None = None


def detect(sample: Sample) -> str | None:
    """Keys of Mooncake without those of Bailian."""
    if not sample.objects or not all(item.keys() >= KEYS for item in sample.objects):
        return None
    if any("chat_id" in item for item in sample.objects):
        return None
    return "JSON lines with timestamp, input_length, output_length and no chat_id"


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of a Mooncake file; times in milliseconds unless declared otherwise."""
    unit = context.unit_of("timestamp", "ms")
    context.block_size(BLOCK_TOKENS)
    clock = Clock()
    for piece in read_rows(source, context, Row, Row(0, 1, 0, None)):
        yield _chunk(source, context, piece, clock, unit)


def _chunk(source: Source, context: Context, piece: JsonRows[Row], clock: Clock, unit: str) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    rows = piece.rows
    times = clock.numbers(caster, "timestamp", [row.timestamp for row in rows], unit)
    inputs = counts(caster, "input_length", [row.input_length for row in rows], least=1, required=True)
    columns = {
        "time_ns": times,
        "input_tokens": inputs,
        "output_tokens": counts(caster, "output_length", [row.output_length for row in rows]),
    }
    assert context.block_tokens
    flat, lengths = block_lists(
        caster, "hash_ids", [row.hash_ids for row in rows], inputs, context.block_tokens
    )
    return Chunk(piece.lines, columns, clock.base_ns or 0, flat, lengths, piece.faults)


FORMAT = Format("mooncake", "Mooncake FAST'25 (JSON lines, 512-token blocks)", detect, chunks)
