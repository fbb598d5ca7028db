"""Parts of a trace that live in arrays: what a freshly read source becomes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

PART_ROWS = 1 << 17  # rows of a part: a row group of this size keeps a batch near 10 MB


@dataclass(frozen=True)
class Columns:
    """All rows of a trace as arrays, in time order, with the sentinels of `schema` for null.

    values         name -> array[rows]; categories as int32 codes
    texts          category -> its texts by code
    source_id      the sources' own ids as Arrow strings, None where there are none
    block_offsets  int64[rows + 1], None without blocks
    block_values   uint64[n], may be memory-mapped
    block_null     bool[rows]
    """

    rows: int
    values: dict[str, npt.NDArray[np.generic]]
    texts: dict[str, list[str]]
    source_id: pa.ChunkedArray | pa.Array | None = None
    block_offsets: npt.NDArray[np.int64] | None = None
    block_values: npt.NDArray[np.uint64] | None = None
    block_null: npt.NDArray[np.bool_] | None = None

    def present(self) -> list[str]:
        """Canonical columns that are held (null throughout or not)."""
        extra = [] if self.source_id is None else ["source_id"]
        extra += [] if self.block_values is None else ["block_ids"]
        return [name for name in schema.NAMES if name in self.values or name in extra]

    def parts(self) -> tuple[ArrayPart, ...]:
        """The rows cut into parts of `PART_ROWS`."""
        return tuple(
            ArrayPart(self, low, min(low + PART_ROWS, self.rows)) for low in range(0, self.rows, PART_ROWS)
        )


@dataclass(frozen=True)
class ArrayPart:
    """Rows `low` up to before `high` of `columns`."""

    columns: Columns
    low: int
    high: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.high - self.low

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        wanted = [name for name in schema.NAMES if name in set(columns)]
        arrays = [self._column(name) for name in wanted]
        return pa.table(arrays, schema=schema.arrow_schema(wanted))

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`: a digest of all values and texts."""
        table = self.arrow(self.columns.present())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return hashlib.sha256(sink.getvalue()).hexdigest()

    def _column(self, name: str) -> pa.Array:
        spec = schema.BY_NAME[name]
        if name == "block_ids" and self.columns.block_values is not None:
            return self._block_ids()
        if name == "source_id" and self.columns.source_id is not None:
            return self.columns.source_id.slice(self.low, self.rows)
        if name not in self.columns.values:
            return pa.nulls(self.rows, spec.arrow)
        values = self.columns.values[name][self.low : self.high]
        if name in schema.CATEGORIES:
            return category_array(values.astype(np.int32, copy=False), self.columns.texts[name])
        if spec.arrow == pa.float64():
            return pa.array(values, pa.float64(), mask=np.isnan(values.astype(np.float64, copy=False)))
        return pa.array(values, values.dtype.name, mask=values == spec.null).cast(spec.arrow)

    def _block_ids(self) -> pa.Array:
        held = self.columns
        assert held.block_offsets is not None and held.block_values is not None
        offsets = held.block_offsets[self.low : self.high + 1]
        values = pa.array(held.block_values[offsets[0] : offsets[-1]])
        bounds = pa.array((offsets - offsets[0]).astype(np.int32))
        mask = None
        if held.block_null is not None and held.block_null[self.low : self.high].any():
            mask = pa.array(held.block_null[self.low : self.high])
        return pa.ListArray.from_arrays(bounds, values, type=schema.BLOCKS, mask=mask)


def category_array(codes: npt.NDArray[np.int32], texts: list[str]) -> pa.DictionaryArray:
    """Arrow dictionary array of int32[n] codes, with only the texts that occur, in code order.

    An unused text in a dictionary would be stored and later counted as a category.
    """
    used = np.unique(codes[codes != schema.NULL_CODE])
    dense = np.searchsorted(used, codes).astype(np.int32)
    indices = pa.array(dense, mask=codes == schema.NULL_CODE)
    return pa.DictionaryArray.from_arrays(indices, pa.array([texts[code] for code in used], pa.string()))
