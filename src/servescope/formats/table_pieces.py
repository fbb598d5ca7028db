"""The wanted columns of any CSV, JSON lines or Parquet file, in pieces; nothing is cast yet."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope.errors import DataError, UsageError
from servescope.formats.csvrows import read_csv, read_header
from servescope.formats.jsonl import read_rows
from servescope.formats.lines import BOM
from servescope.formats.table_fields import FIELDS, check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.errors import Fault
    from servescope.formats.format import Context
    from servescope.formats.source import Source

PARQUET_ROWS = 1 << 16
_JSON_TYPES: dict[str, tuple[Any, ...]] = {
    "time": (int, float, str),
    "duration": (int, float),
    "seconds": (int, float),
    "count": (int, float),
    "text": (str, int),
    "blocks": (list[int], str),
}


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows.

    lines   int64[n], physical lines (rows of a Parquet file, from 1)
    values  column -> values[n]: Arrow arrays, or lists with None for what a JSON line lacks
    faults  index -> what is wrong with the row
    """

    lines: npt.NDArray[np.int64]
    values: dict[str, Any]
    faults: dict[int, Fault]


def read_pieces(source: Source, context: Context, mapped: dict[str, str]) -> Iterator[Piece]:
    """The columns that `mapped` (field -> column) names.

    Raises UsageError for a column that the source does not have (for JSON lines at the end, if
    no line had it), DataError for a broken file.
    """
    if source.is_folder:
        raise UsageError(f"{source.name}: a folder. Name its files, one after the other.")
    head = source.head()
    if head.startswith(b"PAR1"):
        yield from _parquet_pieces(source, mapped)
    elif (start := head.removeprefix(BOM).lstrip()[:1]) == b"[":
        raise UsageError(f"{source.name}: one JSON array. Give one object a line (JSON lines) instead.")
    elif start == b"{":
        yield from _json_pieces(source, context, mapped, head)
    else:
        yield from _csv_pieces(source, context, mapped)


def _csv_pieces(source: Source, context: Context, mapped: dict[str, str]) -> Iterator[Piece]:
    header = read_header(source)
    check_columns(source.name, mapped, header.names)
    for rows in read_csv(source, context, header, list(dict.fromkeys(mapped.values()))):
        yield Piece(rows.lines, rows.columns, rows.faults)


def _json_pieces(source: Source, context: Context, mapped: dict[str, str], head: bytes) -> Iterator[Piece]:
    keys = _json_keys(head)
    check_columns(source.name, {"arrival": mapped["arrival"]}, keys)
    names = list(dict.fromkeys(mapped.values()))
    row = _json_row(mapped, names)
    seen = set(keys)
    for piece in read_rows(source, context, row, row()):
        values = {name: list(map(attrgetter(f"column{at}"), piece.rows)) for at, name in enumerate(names)}
        seen.update(name for name in names if name not in seen and any(v is not None for v in values[name]))
        yield Piece(piece.lines, values, piece.faults)
    check_columns(source.name, mapped, sorted(seen))


def _json_keys(head: bytes) -> list[str]:
    """Keys of the objects at the start of JSON lines, in the order in which they appear."""
    keys: dict[str, None] = {}
    for line in head.removeprefix(BOM).split(b"\n"):
        try:
            item = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(item, dict):
            keys.update(dict.fromkeys(item))
    return list(keys)


def _json_row(mapped: dict[str, str], names: list[str]) -> type[msgspec.Struct]:
    """A row type with the strict types of the mapped fields: "7" is no count, 7 is no list."""
    fields = []
    for at, name in enumerate(names):
        kinds = [FIELDS[field].kind for field, column in mapped.items() if column == name]
        allowed: Any = None
        for one in dict.fromkeys(one for kind in kinds for one in _JSON_TYPES[kind]):
            allowed = one if allowed is None else allowed | one
        fields.append((f"column{at}", allowed | None, None))
    rename = {f"column{at}": name for at, name in enumerate(names)}
    return msgspec.defstruct("Row", fields, rename=rename)


def _parquet_pieces(source: Source, mapped: dict[str, str]) -> Iterator[Piece]:
    if source.compression:
        raise DataError(f"{source.name}: Parquet inside {source.compression}; decompress it first.")
    names = list(dict.fromkeys(mapped.values()))
    first = 1
    try:
        with pq.ParquetFile(source.path) as file:
            check_columns(source.name, mapped, file.schema_arrow.names)
            for batch in file.iter_batches(PARQUET_ROWS, columns=names):
                lines = np.arange(first, first + batch.num_rows, dtype=np.int64)
                first += batch.num_rows
                yield Piece(lines, {name: _plain(batch.column(name)) for name in names}, {})
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{source.name}: broken Parquet file ({str(error).splitlines()[0]}). Fetch it again."
        ) from error


def _plain(values: pa.Array) -> pa.Array:
    """Without a dictionary, and texts as `string`."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    return values
