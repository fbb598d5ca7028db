"""Building result tables: columns with declared types, rows, histograms."""

from __future__ import annotations

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


def ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole, None where either is unknown or the whole is 0."""
    return part / whole if part is not None and whole else None
