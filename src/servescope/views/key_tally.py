"""Typical shape and cached share by key: medians of input and output, sums of hit ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.prefetch import prefetch
from servescope.kernels.room import cut, grown
from servescope.kernels.shapes import ShapeRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

Ints = npt.NDArray[np.int64]
Bins = npt.NDArray[np.int16]
Words = npt.NDArray[np.uint64]
SUMS = 2
N_HIT, HIT_SUM = range(SUMS)
AHEAD = 512  # rows whose memory is asked for at once
HIT_BITS = 32


class Hits(NamedTuple):
    """Rows of F-HIT, int32[n], and their hit ratios in 2^-32, uint64[n]."""

    rows: npt.NDArray[np.int32]
    ratios: Words


@kernel
def hits_of(it: npt.NDArray[np.int32], ct: npt.NDArray[np.int32]) -> Hits:
    """Rows whose input is above 0 and whose cached tokens are known."""
    rows, ratios = np.empty(len(it), np.int32), np.empty(len(it), np.uint64)
    n = 0
    for i in range(len(it)):
        rows[n] = i
        n += (ct[i] != schema.NULL_INT32) & (it[i] > 0)
    for j in range(n):
        whole = np.int64(it[rows[j]])
        part = np.int64(min(max(ct[rows[j]], np.int32(0)), it[rows[j]])) << HIT_BITS
        # a division of doubles, a third of the time of one of whole numbers, may round up to the next one
        ratio = np.int64(part / float(whole))
        ratios[j] = np.uint64(ratio - np.int64(ratio * whole > part))
    return Hits(rows[:n], ratios[:n])


@kernel
def _fold(sums: Words, keys: npt.NDArray[np.int32], hits: Hits) -> None:
    """Add up hits in sums, modified; see `KeyTally`."""
    rows, ratios = hits
    for begin in range(0, len(rows), AHEAD):
        end = min(begin + AHEAD, len(rows))
        for i in range(begin, end):
            prefetch(sums, np.int64(keys[rows[i]]) * SUMS)
        for i in range(begin, end):
            if keys[rows[i]] >= 0:
                key = np.uint64(keys[rows[i]])
                sums[key, N_HIT] += np.uint64(1)
                sums[key, HIT_SUM] += ratios[i]


@dataclass
class KeyTally:
    """Sums and histograms of dense keys, which need not be known before.

    sums    uint64[keys met so far, 2]: N_HIT, HIT_SUM in 2^-32
    shapes  histograms of input and output tokens of F-SHAPE rows
    """

    sums: Words = field(default_factory=lambda: np.zeros((0, SUMS), np.uint64))
    shapes: ShapeRuns = field(default_factory=ShapeRuns)

    def add(self, keys: npt.NDArray[np.int32], hits: Hits, it_bin: Bins, ot_bin: Bins) -> None:
        """Count rows.

        keys            int32[rows], negative: left out
        hits            what `hits_of` says of them
        it_bin, ot_bin  int16[rows], log bins; either is 0 where the row is not of F-SHAPE
        """
        self.sums = grown(self.sums, 1 + int(keys.max(initial=-1)))
        _fold(self.sums, keys, hits)
        self.shapes.add(keys, it_bin, ot_bin)

    def merge(self, later: KeyTally) -> None:
        """Add the counts of another, which is used up. Changes this one."""
        self.sums = grown(self.sums, len(later.sums))
        self.sums[: len(later.sums)] += later.sums
        self.shapes.merge(later.shapes)

    def columns(self, keys: int, has: Mapping[str, bool]) -> dict[str, tuple[pa.DataType, Any]]:
        """Result columns n_shape, it_median, ot_median, n_hit, hit_sum of keys 0 … keys - 1.

        has  "it", "ot", "ct": whether the source states them
        """
        sums, medians = cut(self.sums, keys), {}
        found, rows = self.shapes.quantiles(0.5, keys)
        for name, values in zip(("it", "ot"), found, strict=True):
            medians[name] = (pa.float64(), pa.array(values, mask=np.isnan(values) | (not has[name])))
        hits = sums[:, HIT_SUM] / 2.0**HIT_BITS
        unknown = pa.nulls(keys)
        return {
            "n_shape": (pa.int64(), rows),
            "it_median": medians["it"],
            "ot_median": medians["ot"],
            "n_hit": (pa.int64(), sums[:, N_HIT].astype(np.int64)),
            "hit_sum": (pa.float64(), hits if has["it"] and has["ct"] else unknown),
        }
