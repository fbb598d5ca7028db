"""Numbers for the study's figures, from columns of tables: cells, curves, quantiles of histograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FINEST = 50  # cells a decade: medians themselves are known to 1/100 decade
CURVE_STEP = 1 / 300  # a curve leaves out points that add less than this share


class Keys(NamedTuple):
    """A column of names as codes: int64[n], -1 for null, and the name of each code, each in use."""

    codes: Ints
    names: list[str]

    def in_order(self) -> list[str]:
        """The names by first appearance."""
        found, first = np.unique(self.codes, return_index=True)
        return [self.names[code] for code in found[np.argsort(first)] if code >= 0]


def keys(data: pa.Table, column: str) -> Keys:
    """The column's values as codes."""
    encoded = data[column].cast(pa.string()) if pa.types.is_null(data[column].type) else data[column]
    if not pa.types.is_dictionary(encoded.type):
        encoded = pc.dictionary_encode(encoded)
    encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no chunk at all
        return Keys(np.zeros(0, np.int64), [])
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(encoded.dictionary) + 1)[1:])
    place = np.full(len(encoded.dictionary) + 1, -1, np.int64)  # the last is that of null
    place[used] = np.arange(len(used))
    return Keys(place[codes], [str(name) for name in encoded.dictionary.take(pa.array(used)).to_pylist()])


def numbers(data: pa.Table, column: str) -> Floats:
    """The column as float64[n], nulls as NaN."""
    return np.asarray(data[column].cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def whole(data: pa.Table, column: str) -> Ints:
    """The column as int64[n], nulls as 0."""
    return np.asarray(data[column].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def equal(data: pa.Table, column: str, value: object) -> pa.Table:
    """The rows whose column has that value."""
    kind = data[column].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return data.filter(pc.equal(data[column].cast(kind), pa.scalar(value, kind)))


class Grouped(NamedTuple):
    """Quantiles by key: keys int64[k] ascending, counts int64[k], values float64[k, shares]."""

    keys: Ints
    counts: Ints
    values: Floats


def grouped_quantiles(key: Ints, low: Floats, high: Floats, count: Ints, shares: Sequence[float]) -> Grouped:
    """Quantiles of one histogram a key; a quantile is the geometric middle of the bin that it lies in.

    key, low, high, count  [n], one bin a row, any order
    shares                 wanted shares, each above 0
    """
    order = np.lexsort((low, key))
    key, middle, count = key[order], np.sqrt(np.maximum(low * high, 0.0))[order], count[order]
    found, starts = np.unique(key, return_index=True)
    sums = np.cumsum(count)
    before = np.concatenate([[0], sums])[starts]
    totals = np.diff(np.append(before, sums[-1] if len(sums) else 0))
    places = [np.searchsorted(sums, before + np.maximum(totals * q - 1e-9, 0.5)) for q in shares]
    values = np.stack([middle[at] for at in places], axis=1) if len(found) else np.zeros((0, len(shares)))
    return Grouped(found, totals, values)


def histogram_curve(data: pa.Table) -> list[tuple[float, float]]:
    """(x, share of counts at or below x) at upper bin edges; points that add little are left out.

    data  bins of one histogram: bin_low, bin_high, count
    """
    order = np.argsort(numbers(data, "bin_high"), kind="stable")
    edge, low = numbers(data, "bin_high")[order], numbers(data, "bin_low")[order]
    share = np.cumsum(whole(data, "count")[order].astype(np.float64))
    if not len(share) or share[-1] <= 0:
        return []
    share /= share[-1]
    points = [(float(low[0]), 0.0)] if math.isfinite(low[0]) and low[0] < edge[0] else []
    last = -1.0
    for x, y in zip(edge.tolist(), share.tolist(), strict=True):
        if y - last >= CURVE_STEP or y >= 1.0:
            points.append((x, round(y, 5)))
            last = y
        if y >= 1.0:
            break
    return points


def per_decade(values: Floats, columns: int) -> int:
    """Cells a decade, so that positive values spread over about so many cells; at most `FINEST`."""
    decades = math.log10(float(values.max()) / float(values.min())) if len(values) else 0.0
    return min(FINEST, max(1, round(columns / max(decades, 1e-9))))


def log_cells(x: Floats, y: Floats, columns: int) -> tuple[list[Row], int]:
    """Counts in square cells of log x and log y, and the cells a decade; values must be above 0.

    Rows x, x2, y, y2 (edges) and n. Edges lie at 10^(k / cells a decade).
    """
    cells = per_decade(x, columns)
    place = np.stack([np.floor(np.log10(v) * cells + 1e-9).astype(np.int64) for v in (x, y)], axis=1)
    found, counts = np.unique(place, axis=0, return_counts=True)
    edges = [[_edge(k, cells), _edge(k + 1, cells)] for k in range(int(found.min()), int(found.max()) + 1)]
    first = int(found.min())
    rows = []
    for (i, j), n in zip(found.tolist(), counts.tolist(), strict=True):
        (x0, x1), (y0, y1) = edges[i - first], edges[j - first]
        rows.append({"x": x0, "x2": x1, "y": y0, "y2": y1, "n": n})
    return rows, cells


def half_log_cells(x: Floats, y: Floats, columns: int, steps: int) -> tuple[list[Row], int]:
    """Counts in cells of log x and of y in [0, 1] cut in `steps`, and the cells a decade of x."""
    cells = per_decade(x, columns)
    across = np.floor(np.log10(x) * cells + 1e-9).astype(np.int64)
    up = np.minimum(np.floor(y * steps + 1e-9).astype(np.int64), steps - 1)
    found, counts = np.unique(np.stack([across, up], axis=1), axis=0, return_counts=True)
    rows = [
        {
            "x": _edge(i, cells),
            "x2": _edge(i + 1, cells),
            "y": round(j / steps, 4),
            "y2": round((j + 1) / steps, 4),
            "n": n,
        }
        for (i, j), n in zip(found.tolist(), counts.tolist(), strict=True)
    ]
    return rows, cells


def _edge(k: int, cells: int) -> float:
    return float(f"{10.0 ** (k / cells):.6g}")


def sums(keys_of: Ints, values: Floats | Ints, count: int) -> Floats:
    """Sums of values by key 0 … count - 1, float64[count]; negative keys are left out."""
    held = keys_of >= 0
    return np.asarray(
        np.bincount(keys_of[held], weights=values[held].astype(np.float64), minlength=count), np.float64
    )


def spearman(previous: Ints, following: Ints, count: Floats) -> float:
    """Rank correlation of pairs given as counts of (bin, bin); equal bins share their middle rank.

    NaN where one side does not vary. Source: Spearman's coefficient with mid-ranks.
    """
    ranks = []
    for bins in (previous, following):
        _, where = np.unique(bins, return_inverse=True)
        totals = np.bincount(where, weights=count)
        ranks.append((np.cumsum(totals) - totals / 2)[where])
    n = count.sum()
    a, b = (r - (r * count).sum() / n for r in ranks)
    spread = math.sqrt(float((a * a * count).sum() * (b * b * count).sum()))
    return float((a * b * count).sum() / spread) if spread > 0 else math.nan
