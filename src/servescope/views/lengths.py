"""Lengths of prompts and answers of each request type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import LOG_BINS, quantile
from servescope.kernels.jit import kernel
from servescope.schema import NULL_INT32

if TYPE_CHECKING:
    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]
METRICS = {"input": "input_tokens", "output": "output_tokens", "cached": "cached_tokens"}
OUTPUT = 1
N, UNKNOWN, FAILED, SUM, LEAST, MOST = range(6)
NO_LEAST = 2**62


@kernel
def _fold(
    bins: npt.NDArray[np.int64],
    stats: npt.NDArray[np.int64],
    metric: int,
    types: npt.NDArray[np.int32],
    values: npt.NDArray[np.int32],
    value_bins: npt.NDArray[np.int16],
    status: npt.NDArray[np.int32],
    failed: int,
) -> None:
    """Fold one column in.

    bins        int64[types + 1, 3, LOG_BINS], modified
    stats       int64[types + 1, 3, 6]: n, unknown, failed, sum, least, most, modified
    value_bins  log bin of each value
    failed      status code of the rows to leave out; below -1 for none
    """
    row = 0
    while row < len(values):  # runs of one type, whose statistics stay in registers
        own = stats[types[row], metric]
        n, unknown, out, total, least, most = (
            own[N],
            own[UNKNOWN],
            own[FAILED],
            own[SUM],
            own[LEAST],
            own[MOST],
        )
        if n == 0:
            least, most = NO_LEAST, -NO_LEAST
        first = types[row]
        while row < len(values) and types[row] == first:
            value = np.int64(values[row])
            leave = status[row] == failed
            missing = (not leave) & (value == NULL_INT32)
            out += leave
            unknown += missing
            known = not (leave | missing)
            n += known
            total += value if known else 0
            least = min(least, value if known else NO_LEAST)
            most = max(most, value if known else -NO_LEAST)
            bins[first, metric, value_bins[row]] += known
            row += 1
        own[N], own[UNKNOWN], own[FAILED], own[SUM] = n, unknown, out, total
        if n > 0:
            own[LEAST], own[MOST] = least, most


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
        """Fold in the next rows: type and status codes; input, output and cached tokens, and log bins."""
        texts = list(self.context.texts.get("status", ()))
        failed = texts.index("failed") if "failed" in texts else -2
        for at in self.metrics.values():
            excluded = failed if at == OUTPUT else -2
            _fold(self.bins, self.stats, at, types, values[at], bins[at], status, excluded)

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
