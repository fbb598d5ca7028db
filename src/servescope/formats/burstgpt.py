"""BurstGPT: CSV, seconds, sessions by id and service times in the newer files.

Units: `Timestamp` seconds since midnight of the first day, local time; `Elapsed time` seconds.
A request with 0 response tokens failed. Source: HPMLL/BurstGPT, releases 1.1 and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.formats.columns import Caster, Clock, counts
from servescope.formats.csvrows import CsvRows, read_csv, read_header
from servescope.formats.format import Chunk, Format
from servescope.formats.times import decimal_times, durations_ns, end_of
from servescope.ledger import NOTE_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
OPTIONAL = ("Session ID", "Elapsed time")


def detect(sample: Sample) -> str | None:
    """The six column names that all releases share."""
    if not set(COLUMNS) <= set(sample.header):
        return None
    return f"CSV with the columns {', '.join(COLUMNS)}"


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of a BurstGPT file; times in seconds unless declared otherwise. Raises UsageError."""
    header = read_header(source, needed=COLUMNS)
    unit = context.unit_of("Timestamp and Elapsed time", "s")
    context.decide("Timestamp counts from midnight of the first day, local time; no time zone is known")
    context.decide("a request with 0 response tokens failed, any other is ok")
    context.decide("Log Type is the request type, as its text stands")
    context.decide("an empty Session ID means no session")
    context.optional |= {"completed_ns", "session_key"}  # so that old and new files go into one trace
    clock = Clock()
    names = [*COLUMNS, *(name for name in OPTIONAL if name in header.names)]
    for piece in read_csv(source, context, header, names):
        yield _chunk(source, context, piece, clock, unit)


def _chunk(source: Source, context: Context, piece: CsvRows, clock: Clock, unit: str) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    read = piece.columns
    times = decimal_times(clock, caster, "Timestamp", read["Timestamp"], unit)
    inputs = counts(caster, "Request tokens", read["Request tokens"], least=1, required=True)
    outputs = counts(caster, "Response tokens", read["Response tokens"])
    totals = counts(caster, "Total tokens", read["Total tokens"])
    columns: dict[str, Any] = {
        "time_ns": times,
        "input_tokens": inputs,
        "output_tokens": outputs,
        "model": _known(read["Model"]),
        "request_type": _known(read["Log Type"]),
        "status": _status(outputs),
    }
    rows = len(piece.lines)
    if "Elapsed time" in read:
        elapsed = durations_ns(caster, "Elapsed time", read["Elapsed time"], unit)
        columns["completed_ns"] = end_of(times, elapsed)
    else:
        columns["completed_ns"] = np.full(rows, schema.NULL_INT64, np.int64)
    known = "Session ID" in read
    columns["session_key"] = _known(read["Session ID"]) if known else pa.nulls(rows, pa.string())
    _note_totals(context, caster, inputs, outputs, totals)
    return Chunk(piece.lines, columns, clock.base_ns or 0, faults=piece.faults)


def _known(texts: pa.Array) -> pa.Array:
    """The texts without surrounding blanks; null for a blank one."""
    trimmed = pc.ascii_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _status(outputs: npt.NDArray[np.int32]) -> pa.Array:
    codes = np.where(outputs == schema.NULL_INT32, 2, np.where(outputs == 0, 1, 0))
    return pa.array(["ok", "failed", "unknown"]).take(pa.array(codes))


def _note_totals(
    context: Context,
    caster: Caster,
    inputs: npt.NDArray[np.int32],
    outputs: npt.NDArray[np.int32],
    totals: npt.NDArray[np.int32],
) -> None:
    """Note the good rows whose total is not the sum of its parts. Changes the ledger."""
    known = (inputs != schema.NULL_INT32) & (outputs != schema.NULL_INT32) & (totals != schema.NULL_INT32)
    known[list(caster.faults)] = False
    wrong = np.flatnonzero(known & (inputs.astype(np.int64) + outputs != totals))
    sentence = 'Total tokens" not the sum of request and response tokens; kept as stated'
    for count, line in [
        *((1, int(caster.lines[index])) for index in wrong[:NOTE_LINES]),
        (max(len(wrong) - NOTE_LINES, 0), None),
    ]:
        context.ledger.note(
            "inconsistent_total",
            f'{{n}} row with "{sentence}',
            f'{{n}} rows with "{sentence}',
            count=count,
            line=line,
        )


FORMAT = Format("burstgpt", "BurstGPT (CSV, seconds, sessions, failures)", detect, chunks)
