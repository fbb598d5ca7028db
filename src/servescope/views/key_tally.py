"""Typical shape and cached share by key: medians of input and output, sums of hit ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.kernels.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Mapping

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
N_SHAPE, N_HIT, HIT_SUM = range(3)
HIT_BITS = 32
NONE = -1


@kernel
def shapes_of(
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
    ct: npt.NDArray[np.int32],
    has_it: bool,
    has_ot: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What each row adds, int64[rows] each: 1 where it is of F-SHAPE, its bins of input and of output
    (NONE: nothing), and its hit ratio in 2^-32 (NONE: not of F-HIT)."""
    shape = np.zeros(len(it), np.int64)
    it_bin, ot_bin, hit = np.full((3, len(it)), NONE, np.int64)
    for i in range(len(it)):
        if (not has_it or it[i] > 0) and (not has_ot or ot[i] > 0):
            shape[i] = 1
            if has_it:
                it_bin[i] = log_bin(float(it[i]))
            if has_ot:
                ot_bin[i] = log_bin(float(ot[i]))
        if it[i] > 0 and ct[i] != schema.NULL_INT32:
            hit[i] = (np.int64(min(max(ct[i], 0), it[i])) << HIT_BITS) // it[i]
    return shape, it_bin, ot_bin, hit


@kernel
def _fold(sums: Words, span: Ints, keys: npt.NDArray[np.int32], shape: Ints, hit: Ints) -> None:
    """Add up rows in sums and span, both modified; see `KeyTally`."""
    for i in range(len(keys)):
        key = keys[i]
        if key >= 0:
            span[0] = min(span[0], key)
            span[1] = max(span[1], key + 1)
            sums[key, N_SHAPE] += np.uint64(shape[i])
            if hit[i] >= 0:
                sums[key, N_HIT] += np.uint64(1)
                sums[key, HIT_SUM] += np.uint64(hit[i])


@dataclass
class KeyTally:
    """Sums and histograms of dense keys.

    keys             number of keys
    sums             uint64[keys, 3]: N_SHAPE, N_HIT, HIT_SUM in 2^-32
    span             int64[2]: the lowest key met, the highest + 1
    inputs, outputs  histograms of tokens of F-SHAPE rows
    """

    keys: int
    sums: Words = field(init=False)
    span: Ints = field(default_factory=lambda: np.array([2**62, 0], np.int64))
    inputs: Runs = field(default_factory=Runs)
    outputs: Runs = field(default_factory=Runs)

    def __post_init__(self) -> None:
        self.sums = np.zeros((self.keys, 3), np.uint64)

    def add(self, keys: npt.NDArray[np.int32], values: tuple[Ints, Ints, Ints, Ints]) -> None:
        """Count rows: int32[rows] keys (negative: left out) and what `shapes_of` says of them."""
        shape, it_bin, ot_bin, hit = values
        _fold(self.sums, self.span, keys, shape, hit)
        self.inputs.add(keys, it_bin)
        self.outputs.add(keys, ot_bin)

    def merge(self, later: KeyTally) -> None:
        """Add the counts of another, which is used up. Changes this one."""
        low, high = int(later.span[0]), int(later.span[1])
        if low < high:
            self.sums[low:high] += later.sums[low:high]
            self.span[0], self.span[1] = min(self.span[0], low), max(self.span[1], high)
        self.inputs.merge(later.inputs)
        self.outputs.merge(later.outputs)

    def columns(self, has: Mapping[str, bool]) -> dict[str, tuple[pa.DataType, Any]]:
        """Result columns n_shape, it_median, ot_median, n_hit, hit_sum of all keys.

        has  "it", "ot", "ct": whether the source states them
        """
        medians = {}
        for name, held in (("it", self.inputs), ("ot", self.outputs)):
            values = held.quantile(0.5, self.keys, whole=True)
            medians[name] = (pa.float64(), pa.array(values, mask=np.isnan(values)))
        hits = self.sums[:, HIT_SUM] / 2.0**HIT_BITS
        unknown = pa.nulls(self.keys)
        return {
            "n_shape": (pa.int64(), self.sums[:, N_SHAPE].astype(np.int64)),
            "it_median": medians["it"],
            "ot_median": medians["ot"],
            "n_hit": (pa.int64(), self.sums[:, N_HIT].astype(np.int64)),
            "hit_sum": (pa.float64(), hits if has["it"] and has["ct"] else unknown),
        }
