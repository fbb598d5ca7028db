"""Azure LLM inference traces 2023, 2024 and the multimodal one of 2025: CSV, calendar times.

Units: `TIMESTAMP` calendar time, up to seven fraction digits, without a zone (2023) or with an
offset (2024). Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023 and 2024,
AzureLMMInferenceDataset2025 (which adds `NumImages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope import schema
from servescope.errors import UsageError
from servescope.formats.columns import INT16_MAX, Caster, Clock, counts
from servescope.formats.csvrows import CsvRows, read_csv, read_header
from servescope.formats.format import Chunk, Format
from servescope.formats.times import Zones, calendar_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
IMAGES = "NumImages"


def detect(sample: Sample) -> str | None:
    """The three column names."""
    if not set(COLUMNS) <= set(sample.header):
        return None
    return f"CSV with the columns {', '.join(COLUMNS)}"


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of an Azure file. Raises UsageError for another header or a declared time unit."""
    header = read_header(source, needed=COLUMNS)
    if context.options.time_unit:
        raise UsageError("Azure traces hold calendar times; --time-unit does not apply to them.")
    context.origin = "calendar"
    context.decide("TIMESTAMP is calendar time (fixed by the format); offsets are applied")
    context.optional |= {"image_count"}  # so that old and new files go into one trace
    names = [*COLUMNS, IMAGES] if IMAGES in header.names else list(COLUMNS)
    clock, zones = Clock(), Zones()
    for piece in read_csv(source, context, header, names):
        yield _chunk(source, piece, clock, zones)
    zones.note(context.ledger)


def _chunk(source: Source, piece: CsvRows, clock: Clock, zones: Zones) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    read = piece.columns
    columns = {
        "time_ns": calendar_times(clock, caster, "TIMESTAMP", read["TIMESTAMP"], zones),
        "input_tokens": counts(caster, "ContextTokens", read["ContextTokens"], least=1, required=True),
        "output_tokens": counts(caster, "GeneratedTokens", read["GeneratedTokens"]),
    }
    columns["image_count"] = (
        counts(caster, IMAGES, read[IMAGES], most=INT16_MAX)
        if IMAGES in read
        else np.full(len(piece.lines), schema.NULL_INT32, np.int32)
    )
    return Chunk(piece.lines, columns, clock.base_ns or 0, faults=piece.faults)


FORMAT = Format(
    "azure", "Azure LLM inference 2023, 2024, multimodal 2025 (CSV, calendar times)", detect, chunks
)
