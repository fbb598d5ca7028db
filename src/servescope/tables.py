"""Building result tables: columns with declared types, rows, histograms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels import histogram
from servescope.result import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def table(name: str, columns: Mapping[str, tuple[pa.DataType, Any]], doc: str) -> Table:
    """A result table from column -> (type, values); None is null."""
    arrays = {key: pa.array(values, kind) for key, (kind, values) in columns.items()}
    return Table(name, pa.table(arrays), doc)


def stacked(
    name: str, schema_of: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]], doc: str
) -> Table:
    """A result table from rows of values in the order of the columns."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema_of)
    kinds = zip(schema_of.items(), columns, strict=True)
    return table(name, {key: (kind, list(values)) for (key, kind), values in kinds}, doc)


def histogram_table(
    name: str,
    keys: Sequence[str],
    cells: Sequence[tuple[Sequence[str], npt.NDArray[np.int64]]],
    doc: str,
    negative: Sequence[tuple[Sequence[str], int]] = (),
) -> Table:
    """A result table of histograms: key columns (text), bin_low, bin_high, count; filled bins only.

    cells     (key texts, int64[LOG_BINS] or int64[RATIO_BINS]) in the order of the rows
    negative  (key texts, count) of values below 0: the last rows, bins from minus infinity to 0
    """
    bins = [histogram.filled(counts) for _, counts in cells]
    bins += [histogram.Bins(*(np.array([x]) for x in (-np.inf, 0.0, count))) for _, count in negative]
    lengths = [len(b.counts) for b in bins]
    columns: dict[str, tuple[pa.DataType, Any]] = {}
    for at, key in enumerate(keys):
        texts = np.array([texts[at] for texts, _ in (*cells, *negative)], object)
        columns[key] = (pa.string(), np.repeat(texts, lengths))
    none = [np.zeros(0)]
    columns["bin_low"] = (pa.float64(), np.concatenate([*none, *(b.low for b in bins)]))
    columns["bin_high"] = (pa.float64(), np.concatenate([*none, *(b.high for b in bins)]))
    counts = np.concatenate([*none, *(b.counts for b in bins)]).astype(np.int64)
    columns["count"] = (pa.int64(), counts)
    return table(name, columns, doc)


def bin_columns(
    bins: npt.NDArray[np.int64], *, low: str = "bin_low", high: str = "bin_high"
) -> dict[str, tuple[pa.DataType, Any]]:
    """The columns `low` and `high`, edges of log bins given by index, int64[n]."""
    edges = histogram.EDGES
    return {
        low: (pa.float64(), np.concatenate([[0.0], edges[:-1]])[bins]),
        high: (pa.float64(), np.concatenate([[0.0], edges[1:]])[bins]),
    }


def category(codes: npt.NDArray[np.signedinteger[Any]], texts: pa.Array) -> tuple[pa.DataType, pa.Array]:
    """A column of texts by code (signed integers, negative for null): 4 bytes a row, whatever the texts."""
    codes = codes.astype(np.int32, copy=False)
    column = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), texts)
    return column.type, column


def coded_texts(
    codes: npt.NDArray[Any], texts: pa.Array | Sequence[str]
) -> tuple[pa.DataType, pa.DictionaryArray]:
    """A text column given by codes into `texts`, below 0 for null: kept as codes, with used texts only."""
    used = np.zeros(len(texts) + 1, np.bool_)
    used[codes] = True  # -1 marks the last one
    used[-1] = False
    rank = np.cumsum(used, dtype=np.int32) - 1
    at = np.flatnonzero(used)
    if isinstance(texts, pa.Array):
        held = texts.take(pa.array(at))
    else:
        held = pa.array([texts[code] for code in at.tolist()], pa.string())
    indices = pa.array(rank[codes], pa.int32(), mask=np.asarray(codes) < 0)
    return pa.dictionary(pa.int32(), pa.string()), pa.DictionaryArray.from_arrays(indices, held)


def ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole, None where either is unknown or the whole is 0."""
    return part / whole if part is not None and whole else None


def joined(tables: Sequence[Table]) -> list[Table]:
    """Tables of one name put together, in the order of their first appearance."""
    names = dict.fromkeys(table.name for table in tables)
    return [
        replace(of_name[0], data=pa.concat_tables([table.data for table in of_name]))
        for of_name in ([table for table in tables if table.name == name] for name in names)
    ]
