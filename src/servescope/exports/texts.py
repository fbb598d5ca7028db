"""Columns as text, vectorised: JSON numbers, block lists, decimal and calendar times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.errors import UsageError
from servescope.trace import to_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servescope.trace import Batch, Trace

NS_PER_S = 1_000_000_000
LARGEST_NS = 2**62
PIECE_ROWS = 8_192  # block lists as text are long: an Arrow string array holds 2 GB


def pieces(trace: Trace, columns: Sequence[str]) -> Iterator[tuple[Batch, pa.Table]]:
    """The columns in pieces of `PIECE_ROWS`, as arrays (but for texts, categories, blocks) and as a table."""
    numbers = [name for name in columns if name not in schema.CATEGORIES and name != "block_ids"]
    for start, table in zip(trace.starts[:-1], trace.arrow(columns), strict=True):
        for low in range(0, table.num_rows, PIECE_ROWS):
            piece = table.slice(low, PIECE_ROWS)
            yield to_batch(piece.select(numbers), start + low, {}), piece


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def block_lists(column: pa.ChunkedArray) -> pa.Array:
    """Block ids as JSON lists, all 64 bits kept; null where the row states none."""
    lists = one_array(column)
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0]).cast(pa.string())
    nulls = pa.array(lists.is_null().to_numpy(zero_copy_only=False)) if lists.null_count else None
    texts = pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values, mask=nulls)
    return pc.binary_join_element_wise("[", pc.binary_join(texts, ", "), "]", "")


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Numbers or categories as plain text, nulls kept."""
    values = one_array(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    return values.cast(pa.string())


def without(column: pa.ChunkedArray, hidden: npt.NDArray[np.bool_]) -> pa.Array:
    """Numbers as plain text, null where they are or where `hidden`."""
    return pc.if_else(pa.array(hidden), pa.scalar(None, pa.string()), plain(column))


def json_texts(column: pa.ChunkedArray) -> pa.Array:
    """A category column as JSON strings, nulls kept. Only the distinct texts are escaped."""
    coded = one_array(column)
    escaped = pa.array(
        [json.dumps(text, ensure_ascii=False) for text in coded.dictionary.to_pylist()], pa.string()
    )
    return pc.take(escaped, coded.indices)


def json_rows(fields: list[tuple[str, pa.Array]]) -> pa.Array:
    """One JSON object a row from (key, JSON text) columns; a null leaves its key out. First key: no nulls."""
    pieces: list[pa.Array | str] = ["{"]
    for index, (key, values) in enumerate(fields):
        named = pc.binary_join_element_wise(f'{", " if index else ""}"{key}": ', values, "")
        pieces.append(pc.fill_null(named, ""))
    return pc.binary_join_element_wise(*pieces, "}\n", "")


def write_texts(file: pa.NativeFile, rows: pa.Array) -> None:
    """Append the texts, one after the other. Their bytes lie together in the array already."""
    if len(rows):
        bounds = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1]
        file.write(memoryview(rows.buffers()[2])[bounds[0] : bounds[-1]])


def clock_fits(trace: Trace) -> None:
    """Raises UsageError where times on the source's clock do not fit 64 bits of nanoseconds."""
    if abs(trace.meta.origin.first_ns) > LARGEST_NS:
        raise UsageError(
            "the trace's clock begins more than 146 years from 1970; its times cannot be written."
        )


def decimal_seconds(ns: npt.NDArray[np.int64]) -> pa.Array:
    """Nanoseconds as decimal seconds, exact, one fraction digit at least ("15.5", "10.0")."""
    sign = np.where(ns < 0, "-", "")
    whole, rest = np.divmod(np.abs(ns), NS_PER_S)
    digits = pc.utf8_rtrim(pc.utf8_lpad(pa.array(rest).cast(pa.string()), 9, "0"), "0")
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    seconds = pc.binary_join_element_wise(pa.array(sign), pa.array(whole).cast(pa.string()), "")
    return pc.binary_join_element_wise(seconds, digits, ".")


def calendar_times(ns: npt.NDArray[np.int64]) -> pa.Array:
    """Nanoseconds since 1970 as `YYYY-MM-DD HH:MM:SS.fffffff`: seven digits, the rest is cut."""
    whole, rest = np.divmod(ns, NS_PER_S)
    moments = pa.array(np.datetime_as_string(whole.astype("datetime64[s]")).astype(object), pa.string())
    digits = pc.utf8_lpad(pa.array(rest // 100).cast(pa.string()), 7, "0")
    return pc.binary_join_element_wise(pc.replace_substring(moments, "T", " "), digits, ".")


def open_output(path: Path) -> pa.NativeFile:
    """A file to write, buffered."""
    return pa.output_stream(str(path), compression=None, buffer_size=1 << 20)
