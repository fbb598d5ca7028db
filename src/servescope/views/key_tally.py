"""Typical shape and cached share by key: medians of input and output, sums of hit ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.room import cut, grown
from servescope.kernels.shapes import ShapeRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

Ints = npt.NDArray[np.int64]
Bins = npt.NDArray[np.int16]
Words = npt.NDArray[np.uint64]
N_SHAPE, N_HIT, HIT_SUM = range(3)
HIT_BITS = 32
NONE = -1


@kernel
def rows_of(
    it: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    it_bin: Bins,
    ot_bin: Bins,
    has_it: bool,
    has_ot: bool,
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """What each row adds: whether it is of F-SHAPE, bool[rows], and its hit ratio in 2^-32, int64[rows]
    (NONE: not of F-HIT)."""
    shape, hit = np.empty(len(it), np.bool_), np.empty(len(it), np.int64)
    for i in range(len(it)):
        shape[i] = ((not has_it) | (it_bin[i] > 0)) & ((not has_ot) | (ot_bin[i] > 0))
        hit[i] = NONE
    for i in range(len(it)):  # apart: the loop above has no branch
        if ct[i] != schema.NULL_INT32 and it[i] > 0:
            hit[i] = (np.int64(min(max(ct[i], 0), it[i])) << HIT_BITS) // it[i]
    return shape, hit


@kernel
def _fold(
    sums: Words, span: Ints, keys: npt.NDArray[np.int32], shape: npt.NDArray[np.bool_], hit: Ints
) -> None:
    """Add up rows in sums and span, both modified; see `KeyTally`."""
    low, high = span[0], span[1]
    for i in range(len(keys)):
        key = np.int64(keys[i])
        if key >= 0:
            low, high = min(low, key), max(high, key + 1)
            sums[key, N_SHAPE] += np.uint64(shape[i])
            if hit[i] >= 0:
                sums[key, N_HIT] += np.uint64(1)
                sums[key, HIT_SUM] += np.uint64(hit[i])
    span[0], span[1] = low, high


@dataclass
class KeyTally:
    """Sums and histograms of dense keys, which need not be known before.

    sums    uint64[keys met so far, 3]: N_SHAPE, N_HIT, HIT_SUM in 2^-32
    span    int64[2]: the lowest key met, the highest + 1
    shapes  histograms of input and output tokens of F-SHAPE rows
    """

    sums: Words = field(default_factory=lambda: np.zeros((0, 3), np.uint64))
    span: Ints = field(default_factory=lambda: np.array([2**62, 0], np.int64))
    shapes: ShapeRuns = field(default_factory=ShapeRuns)

    def add(
        self,
        keys: npt.NDArray[np.int32],
        rows: tuple[npt.NDArray[np.bool_], Ints],
        it_bin: Bins,
        ot_bin: Bins,
    ) -> None:
        """Count rows.

        keys            int32[rows], negative: left out
        rows            what `rows_of` says of them
        it_bin, ot_bin  int16[rows], log bins; 0 where the row is not of F-SHAPE
        """
        self.sums = grown(self.sums, 1 + int(keys.max(initial=-1)))
        _fold(self.sums, self.span, keys, *rows)
        self.shapes.add(keys, it_bin, ot_bin)

    def merge(self, later: KeyTally) -> None:
        """Add the counts of another, which is used up. Changes this one."""
        low, high = int(later.span[0]), int(later.span[1])
        if low < high:
            self.sums = grown(self.sums, high)
            self.sums[low:high] += later.sums[low:high]
            self.span[0], self.span[1] = min(self.span[0], low), max(self.span[1], high)
        self.shapes.merge(later.shapes)

    def columns(self, keys: int, has: Mapping[str, bool]) -> dict[str, tuple[pa.DataType, Any]]:
        """Result columns n_shape, it_median, ot_median, n_hit, hit_sum of keys 0 … keys - 1.

        has  "it", "ot", "ct": whether the source states them
        """
        sums, medians = cut(self.sums, keys), {}
        for name, values in zip(("it", "ot"), self.shapes.quantiles(0.5, keys), strict=True):
            medians[name] = (pa.float64(), pa.array(values, mask=np.isnan(values) | (not has[name])))
        hits = sums[:, HIT_SUM] / 2.0**HIT_BITS
        unknown = pa.nulls(keys)
        return {
            "n_shape": (pa.int64(), sums[:, N_SHAPE].astype(np.int64)),
            "it_median": medians["it"],
            "ot_median": medians["ot"],
            "n_hit": (pa.int64(), sums[:, N_HIT].astype(np.int64)),
            "hit_sum": (pa.float64(), hits if has["it"] and has["ct"] else unknown),
        }
