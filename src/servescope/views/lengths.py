"""Lengths of prompts and answers of each request type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import LOG_BINS, add_bins, count_wanted, quantile
from servescope.kernels.jit import kernel
from servescope.schema import NULL_INT32

if TYPE_CHECKING:
    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]
METRICS = {"input": "input_tokens", "output": "output_tokens", "cached": "cached_tokens"}
OUTPUT = 1
N, UNKNOWN, FAILED, SUM, LEAST, MOST = range(6)
HIGHEST, LOWEST = np.int32(2**31 - 1), np.int32(-(2**31))
NONE = np.zeros(0, np.int32)


@kernel
def _fold(
    stats: Ints,
    metric: int,
    types: npt.NDArray[np.int32],
    values: npt.NDArray[np.int32],
    status: npt.NDArray[np.int32],
    failed: int,
    known: npt.NDArray[np.bool_],
) -> None:
    """Fold the statistics of one column in, and say which rows count.

    stats   int64[types + 1, 3, 6]: n, unknown, failed, sum, least, most, modified
    types   empty where there are none
    status  empty where no row is to be left out; failed: code of those that are
    known   bool[rows], modified
    """
    row, typed, checked = 0, len(types) > 0, len(status) > 0
    while row < len(values):  # runs of one type, whose statistics stay in registers
        first, end = types[row] if typed else -1, len(values)
        if typed:
            end = row + 1
            while end < len(values) and types[end] == first:
                end += 1
        n, out, total, least, most = np.int32(0), np.int32(0), np.int64(0), HIGHEST, LOWEST
        for i in range(np.uint64(row), np.uint64(end)):
            # selected, not added as truth values, which would keep the loop from being vectorised
            left = checked and status[i] == failed
            known[i] = (not left) & (values[i] != NULL_INT32)
            out += np.int32(1) if left else np.int32(0)
            n += np.int32(1) if known[i] else np.int32(0)
            total += np.int64(values[i]) if known[i] else np.int64(0)
            least = min(least, values[i] if known[i] else HIGHEST)
            most = max(most, values[i] if known[i] else LOWEST)
        own = stats[first, metric]
        if n > 0:
            own[LEAST] = min(own[LEAST], least) if own[N] > 0 else least
            own[MOST] = max(own[MOST], most) if own[N] > 0 else most
        own[N] += n
        own[UNKNOWN] += end - row - n - out
        own[FAILED] += out
        own[SUM] += total
        row = end


@dataclass(frozen=True)
class Length:
    """Statistics of one scope and metric; None where nothing is known.

    n, unknown, failed_excluded  requests counted, without a value, and left out as failed
    """

    n: int
    unknown: int
    failed_excluded: int
    total: int | None
    least: int
    most: int | None
    bins: Ints

    def quantile(self, q: float) -> float | None:
        """Quantile, off by less than 2.4 %, exact up to 40 tokens."""
        return quantile(self.bins, q, whole=True, low=self.least, high=float(self.most or 0))


@dataclass
class Lengths:
    """bins and stats by type (no type at the end) and metric; see `_fold`."""

    context: Context
    bins: Ints = field(init=False)
    stats: Ints = field(init=False)

    def __post_init__(self) -> None:
        slots = len(self.context.texts.get("request_type", ())) + 1
        self.bins = np.zeros((slots, len(METRICS), LOG_BINS), np.int64)
        self.stats = np.zeros((slots, len(METRICS), 6), np.int64)

    @property
    def metrics(self) -> dict[str, int]:
        """Metric -> its place in the arrays, for the columns that the source states."""
        return {name: at for at, (name, column) in enumerate(METRICS.items()) if self.context.has(column)}

    def update(
        self,
        types: npt.NDArray[np.int32],
        status: npt.NDArray[np.int32],
        values: list[npt.NDArray[np.int32]],
        bins: list[npt.NDArray[np.int16]],
    ) -> None:
        """Fold in the next rows: type (empty: none) and status codes; tokens by metric, and log bins."""
        texts = list(self.context.texts.get("status", ()))
        failed = texts.index("failed") if "failed" in texts else -1
        known = np.empty(len(values[0]), np.bool_)
        first = types % np.int32(len(self.stats)) * np.int32(len(METRICS) * LOG_BINS)
        for at in self.metrics.values():
            checked = status if at == OUTPUT and failed >= 0 else NONE
            _fold(self.stats, at, types, values[at], checked, failed, known)
            if not known.any():
                continue
            if len(types):
                add_bins(self.bins.reshape(-1)[at * LOG_BINS :], first, bins[at], known)
            else:
                count_wanted(self.bins[0, at], bins[at], known)

    def merge(self, later: Lengths) -> None:
        """Fold in the adjacent, later slice."""
        self.bins += later.bins
        self.stats = _merged(self.stats, later.stats)

    def length(self, scope: int, metric: str) -> Length:
        """Statistics of scope 0 (all) or 1 + type."""
        at = self.metrics[metric]
        if scope:
            bins, stats = self.bins[scope - 1, at], self.stats[scope - 1, at]
        else:
            bins, stats = self.bins[:, at].sum(axis=0), self.stats[0, at]
            for other in self.stats[1:, at]:
                stats = _merged(stats, other)
        n, unknown, failed, total, least, most = (int(x) for x in stats)
        return Length(n, unknown, failed, total if n else None, least, most if n else None, bins)


def _merged(a: Ints, b: Ints) -> Ints:
    """Statistics of both: int64[…, 6]."""
    both = a + b
    least = np.minimum(a[..., LEAST], b[..., LEAST])
    most = np.maximum(a[..., MOST], b[..., MOST])
    both[..., LEAST] = np.where(a[..., N] == 0, b[..., LEAST], np.where(b[..., N] == 0, a[..., LEAST], least))
    both[..., MOST] = np.where(a[..., N] == 0, b[..., MOST], np.where(b[..., N] == 0, a[..., MOST], most))
    return both
