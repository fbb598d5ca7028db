"""What several views make of the same column of a batch, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.histogram import log_bin, whole_ratio_bin
from servescope.kernels.jit import kernel
from servescope.views.sketch import float64, int32, int64

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.trace import Batch

Bins = npt.NDArray[np.int16]
Seconds = npt.NDArray[np.float64]
TTFT, DURATION, DECODE = range(3)  # of `latency_bins`
UNKNOWN = -1  # of `hit_bins`


@kernel
def _token_bins(tokens: npt.NDArray[np.int32], bins: Bins) -> None:
    """Write the log bin of every count to bins."""
    for i in range(len(tokens)):
        bins[i] = log_bin(float(tokens[i]))


@kernel
def _durations(arrival: npt.NDArray[np.int64], completed: npt.NDArray[np.int64], seconds: Seconds) -> None:
    """Write the duration of every request to seconds."""
    for i in range(len(arrival)):
        known = completed[i] != schema.NULL_INT64
        seconds[i] = (completed[i] - arrival[i]) / 1e6 if known else np.nan


@kernel
def _latency_bins(ttft: Seconds, duration: Seconds, bins: Bins) -> None:
    """Write the log bins of every request's latencies to bins, int16[3, rows]."""
    for i in range(len(ttft)):
        bins[TTFT, i] = log_bin(ttft[i])
        bins[DURATION, i] = log_bin(duration[i])
        bins[DECODE, i] = log_bin(duration[i] - ttft[i])


@kernel
def _hit_bins(it: npt.NDArray[np.int32], ct: npt.NDArray[np.int32], bins: Bins) -> None:
    """Write the linear bin of every cached / input to bins."""
    for i in range(len(it)):
        known = (it[i] > 0) & (ct[i] != schema.NULL_INT32)
        bins[i] = whole_ratio_bin(ct[i], max(it[i], 1)) if known else UNKNOWN


def _once(batch: Batch, name: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """What `make` returns, made once a batch. Two threads that ask at once both make it."""
    found = batch.derived.get(name)
    if found is None:
        found = batch.derived[name] = make()
    return found


def token_bins(batch: Batch, column: str) -> Bins:
    """Log bins of token counts, int16[rows]: 0 for 0, for less and for unknown. Not to be modified."""

    def make() -> Bins:
        tokens, bins = int32(batch, column), np.zeros(batch.rows, np.int16)
        if tokens.max(initial=0) > 0:  # a source may begin to state a column at some time
            _token_bins(tokens, bins)
        return bins

    return _once(batch, column, make)


def durations(batch: Batch) -> Seconds:
    """Time from arrival to completion in seconds, float64[rows], NaN if unknown. As `token_bins`."""

    def make() -> Seconds:
        found = np.empty(batch.rows)
        _durations(int64(batch, "arrival_us"), int64(batch, "completed_us"), found)
        return found

    return _once(batch, "durations", make)


def latency_bins(batch: Batch) -> Bins:
    """Log bins of seconds, int16[3, rows]: time to first token, duration, and the one less the other.

    0 for 0, for less and for unknown. As `token_bins`.
    """

    def make() -> Bins:
        bins = np.empty((3, batch.rows), np.int16)
        _latency_bins(float64(batch, "ttft_s"), durations(batch), bins)
        return bins

    return _once(batch, "latency_bins", make)


def hit_bins(batch: Batch) -> Bins:
    """Linear bins of cached / input, int16[rows]: UNKNOWN where either is, or the input is not above 0.

    As `token_bins`.
    """

    def make() -> Bins:
        bins = np.empty(batch.rows, np.int16)
        _hit_bins(int32(batch, "input_tokens"), int32(batch, "cached_tokens"), bins)
        return bins

    return _once(batch, "hit_bins", make)
