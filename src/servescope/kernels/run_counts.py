"""Counts by key and bin, as a run that `runs.Runs` takes (see `run_coding`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.kernels.run_coding import BIN_BITS, WORST_BYTES, put_bin, put_number

Ints = npt.NDArray[np.int64]


@kernel
def _coded(values: Ints, counts: Ints) -> npt.NDArray[np.uint8]:
    """The run of sorted, distinct values, int64[n], n above 0, and of how often each counts, above 0."""
    out = np.empty(WORST_BYTES * len(values), np.uint8)
    at, last_key, last_bin = 0, -1, -1
    for i in range(len(values)):
        key, own = values[i] >> BIN_BITS, values[i] & ((1 << BIN_BITS) - 1)
        if key != last_key:
            if i > 0:
                out[at] = 0
                at += 1
            at = put_number(out, at, key - last_key)
            last_key, last_bin = key, -1
        at = put_bin(out, at, own - last_bin, counts[i])
        last_bin = own
    out[at] = 0
    return out[: at + 1].copy()


def run_of(keys: Ints, bins: Ints, counts: Ints) -> npt.NDArray[np.uint8]:
    """The run of counts above 0, int64[n], of distinct pairs of key and bin: empty where there are none."""
    if not len(keys):
        return np.zeros(0, np.uint8)
    values = keys << BIN_BITS | bins
    order = np.argsort(values)
    return _coded(values[order], counts[order])
