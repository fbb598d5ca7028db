"""Any CSV, JSON lines or Parquet file, with a column map and declared units.

Units: times in the declared `--time-unit`, unless they are calendar texts or Parquet timestamps;
durations and times to first token in the unit of the field's name (`duration_s`, `ttft_ms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.formats.columns import Caster, Clock, Seen, block_lists, counts, refuse_repeats, seconds
from servescope.formats.format import Chunk, Format
from servescope.formats.table_blocks import id_lists
from servescope.formats.table_fields import FIELDS, checked_map
from servescope.formats.table_pieces import Piece, read_pieces
from servescope.formats.table_time import TimeRule, as_texts, decide_rule, read_times
from servescope.formats.times import Zones, durations_ns, end_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

STATUSES = ("ok", "failed", "unknown")


def detect(sample: Sample) -> str | None:
    """Never by content: a table is asked for by `--map`."""
    del sample
    return None


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of a table. Raises UsageError for an unknown field or column and an undeclared unit."""
    options = context.options
    mapped = checked_map(options.map, block_tokens=options.block_tokens)
    for field, column in mapped.items():
        if field != "arrival":
            context.decide(f'{field} is column "{column}"')
    if "block_ids" in mapped:
        context.block_tokens = options.block_tokens
        context.decide(f"a block holds {options.block_tokens} tokens")
    clock, zones = Clock(), Zones()
    rule: TimeRule | None = None
    for piece in read_pieces(source, context, mapped):
        rule = rule or decide_rule(source, context, mapped["arrival"], piece.values[mapped["arrival"]])
        yield _chunk(source, context, mapped, piece, rule, clock, zones)
    zones.note(context.ledger)


def _chunk(
    source: Source,
    context: Context,
    mapped: dict[str, str],
    piece: Piece,
    rule: TimeRule,
    clock: Clock,
    zones: Zones,
) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    columns: dict[str, Any] = {}
    arrival = mapped["arrival"]
    times = read_times(rule, clock, caster, arrival, piece.values[arrival], zones, required=True)
    columns["time_ns"] = times
    for field, column in mapped.items():
        if field not in ("arrival", "block_ids"):
            values = piece.values[column]
            columns[FIELDS[field].column] = (
                read_times(rule, clock, caster, column, values, Zones(), required=False)
                if field == "completed"
                else _cast(caster, context, field, column, values, times)
            )
    _check_status(caster, mapped, columns)
    if "parent_id" in mapped:
        columns["own_key"] = columns["source_id"]
        # parents would be ambiguous
        seen: Seen = context.state.setdefault("table_ids", {})
        refuse_repeats(caster, mapped["source_id"], columns["source_id"].to_pylist(), seen)
    _note_early_ends(context, caster, columns)
    chunk = Chunk(piece.lines, columns, clock.base_ns or 0, faults=piece.faults)
    if "block_ids" in mapped:
        _add_blocks(chunk, caster, context, mapped["block_ids"], piece)
    return chunk


def _cast(
    caster: Caster, context: Context, field: str, column: str, values: Any, times: npt.NDArray[np.int64]
) -> Any:
    """One column as the type of its field."""
    about = FIELDS[field]
    if about.kind == "count":
        if context.options.delta_prompts and field == "input_tokens":
            return counts(caster, column, values)  # a turn may add nothing, or an unknown number
        return counts(caster, column, values, least=about.least, most=about.most, required=about.required)
    if about.kind == "seconds":
        return seconds(caster, column, values, scale=0.001 if about.unit == "ms" else 1.0)
    if about.kind == "duration":
        return end_of(times, durations_ns(caster, column, as_texts(values), about.unit))
    trimmed = pc.ascii_trim_whitespace(as_texts(values))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _check_status(caster: Caster, mapped: dict[str, str], columns: dict[str, Any]) -> None:
    """A fault for each status that is none of ours: another word is not translated by a guess."""
    if "status" not in mapped:
        return
    known = pc.is_in(columns["status"], value_set=pa.array([*STATUSES, None], pa.string()))
    for index in np.flatnonzero(~known.to_numpy(zero_copy_only=False)):
        value = columns["status"][int(index)].as_py()
        caster.bad(
            int(index), mapped["status"], value, f"one of {', '.join(STATUSES)} was expected", "bad_status"
        )


def _note_early_ends(context: Context, caster: Caster, columns: dict[str, Any]) -> None:
    if "completed_ns" not in columns:
        return
    ends = columns["completed_ns"]
    early = (ends != schema.NULL_INT64) & (ends < columns["time_ns"])
    early[list(caster.faults)] = False
    context.ledger.note(
        "ends_before_arrival",
        "{n} request ends before it arrives; kept as stated",
        "{n} requests end before they arrive; kept as stated",
        count=int(early.sum()),
    )


def _add_blocks(chunk: Chunk, caster: Caster, context: Context, column: str, piece: Piece) -> None:
    """The blocks of the rows; their count is checked where the whole prompt is known. Changes `chunk`."""
    inputs = chunk.columns.get("input_tokens")
    if inputs is None or context.options.delta_prompts:
        inputs = np.full(chunk.rows, schema.NULL_INT32, np.int32)
    assert context.block_tokens
    lists = id_lists(caster, column, piece.values[column])
    chunk.blocks, chunk.block_lengths = block_lists(caster, column, lists, inputs, context.block_tokens)


FORMAT = Format("table", "any CSV, JSON lines or Parquet with --map FIELD=COLUMN", detect, chunks)
