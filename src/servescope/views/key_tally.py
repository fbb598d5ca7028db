"""Typical shape and cached share by key: medians of input and output, sums of hit ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
SUMS = 3
N_SHAPE, N_HIT, HIT_SUM = range(SUMS)
AHEAD = 256  # rows whose memory is asked for at once
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
    for i in range(len(it)):  # apart: the loop above has less to wait for
        known = (ct[i] != schema.NULL_INT32) & (it[i] > 0)
        whole = np.int64(max(it[i], 1))
        part = np.int64(min(max(ct[i], 0), whole)) << HIT_BITS
        # a division of doubles, a third of the time of one of whole numbers, may round up to the next one
        ratio = np.int64(part / float(whole))
        ratio -= np.int64(ratio * whole > part)
        hit[i] = ratio if known else NONE
    return shape, hit


@kernel
def _fold(sums: Words, keys: npt.NDArray[np.int32], shape: npt.NDArray[np.bool_], hit: Ints) -> None:
    """Add up rows in sums, modified; see `KeyTally`."""
    for begin in range(0, len(keys), AHEAD):
        end = min(begin + AHEAD, len(keys))
        for i in range(begin, end):
            prefetch(sums, np.int64(keys[i]) * SUMS)
        for i in range(begin, end):
            if keys[i] >= 0:
                key, known = np.uint64(keys[i]), np.uint64(hit[i] >= 0)
                sums[key, N_SHAPE] += np.uint64(shape[i])
                sums[key, N_HIT] += known
                sums[key, HIT_SUM] += np.uint64(hit[i]) * known


@dataclass
class KeyTally:
    """Sums and histograms of dense keys, which need not be known before.

    sums    uint64[keys met so far, 3]: N_SHAPE, N_HIT, HIT_SUM in 2^-32
    shapes  histograms of input and output tokens of F-SHAPE rows
    """

    sums: Words = field(default_factory=lambda: np.zeros((0, SUMS), np.uint64))
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
        _fold(self.sums, keys, *rows)
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
