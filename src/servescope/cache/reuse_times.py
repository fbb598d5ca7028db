"""When blocks are used again: reuse times by category with their exponential fits, and lifespans of blocks.

A block is a node of the prefix tree, so using one again is a prefix hit of an unlimited cache. A reuse is
credited to the category that used the block before (kv-reuse, A.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.histogram import EDGES, LOG_BINS, log_bin, quantile
from servescope.kernels.jit import kernel
from servescope.tables import histogram_table, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import Prompts
    from servescope.result import Table

Ints = npt.NDArray[np.int64]
ALL = "*"
LATE_US = 300_000  # the authors' fit uses reuse times above this alone, which drops system prompts (A.3)
EVERY, LATE = range(2)
TIME_DOC = (
    "Time from one use of a prefix block to the next, seconds, by the category (request type and turn) of "
    "the earlier use, unlimited cache; * = all. Bins are left-closed."
)
FIT_DOC = (
    "Exponential fits of reuse times by category of the earlier use. touches: block uses; reused: those with "
    "a later use; p = reused / touches; rate_per_s = 1 / mean; ks: greatest distance between fit and found "
    "distribution at the edges of the bins; log_likelihood: mean of the fit's log density, nats a reuse; "
    "kl_nats: what it loses against the bins' own shares, nats a reuse. late_…: times above 0.3 s alone; "
    "late_located_rate_per_s = 1 / (mean - least), the rate of a fit with a free location. open_near_end: "
    "uses without a later one that are closer to the end of the trace than 90 % of the reuse times are long, "
    "so that p may be too low."
)
LIFE_DOC = (
    "Time from the first to the last use of a prefix block, seconds, 0 for a block used once, by the "
    "category of its first use; * = all. Bins are left-closed."
)
LIFE_SUMMARY_DOC = (
    "Lifespans of prefix blocks (first to last use, 0 for a block used once) by category of the first use; "
    "quantiles off by less than 2.4 %, max_s exact. near_end: blocks used again whose last use is closer to "
    "the end of the trace than 90 % of all reuse times are long: their lifespan may go on."
)


class Uses(NamedTuple):
    """What one pass over the prompts found.

    uses         int32[known], prompts through a node
    first_us, last_us      int64[known], arrivals of its first and last use
    first_kind, last_kind  int32[known], their categories
    found        int32[n], leading blocks of each prompt that were used before
    touches      int64[kinds], block uses
    reused       int64[2, kinds], those with a later use, all and above LATE_US
    seconds, rest_us       int64[2, kinds], sum of the times: whole seconds, and µs beside them
    least_us     int64[2, kinds], shortest time
    bins         int64[2, kinds, LOG_BINS], times in seconds
    """

    uses: npt.NDArray[np.int32]
    first_us: Ints
    last_us: Ints
    first_kind: npt.NDArray[np.int32]
    last_kind: npt.NDArray[np.int32]
    found: npt.NDArray[np.int32]
    touches: Ints
    reused: Ints
    seconds: Ints
    rest_us: Ints
    least_us: Ints
    bins: Ints


def uses_of(prompts: Prompts, kinds: npt.NDArray[np.int32], number: int) -> Uses:
    """Follow every block through the trace; 28 bytes a node. kinds: int32[n], codes below `number`."""
    known = prompts.known
    uses = Uses(
        np.zeros(known, np.int32),
        np.zeros(known, np.int64),
        np.zeros(known, np.int64),
        np.zeros(known, np.int32),
        np.zeros(known, np.int32),
        np.zeros(len(prompts.tails), np.int32),
        np.zeros(number, np.int64),
        np.zeros((2, number), np.int64),
        np.zeros((2, number), np.int64),
        np.zeros((2, number), np.int64),
        np.full((2, number), np.iinfo(np.int64).max),
        np.zeros((2, number, LOG_BINS), np.int64),
    )
    _follow(prompts.offsets, prompts.nodes, prompts.arrival_us, kinds, uses)
    return uses


@kernel
def _follow(
    offsets: Ints,
    nodes: npt.NDArray[np.int32],
    arrival_us: Ints,
    kinds: npt.NDArray[np.int32],
    made: Uses,
) -> None:
    """Fill `made`, fresh from `uses_of`. Slow twin: tests/reference/block_findings.py."""
    for request in range(len(kinds)):
        now, kind = arrival_us[request], kinds[request]
        for place in range(offsets[request], offsets[request + 1]):
            node = nodes[place]
            if made.uses[node] == 0:
                made.first_us[node], made.first_kind[node] = now, kind
            else:
                made.found[request] += 1
                gap, before = now - made.last_us[node], made.last_kind[node]
                where = log_bin(gap * 1e-6)
                for part in range(2 if gap > LATE_US else 1):
                    made.reused[part, before] += 1
                    made.seconds[part, before] += gap // 1_000_000
                    made.rest_us[part, before] += gap % 1_000_000
                    made.least_us[part, before] = min(made.least_us[part, before], gap)
                    made.bins[part, before, where] += 1
            made.uses[node] += 1
            made.last_us[node], made.last_kind[node] = now, kind
        made.touches[kind] += offsets[request + 1] - offsets[request]


def reuse_tables(uses: Uses, names: Sequence[str], end_us: int) -> tuple[list[Table], list[str]]:
    """Tables `reuse_time` and `reuse_fit`, and notes.

    names   texts of the categories
    end_us  arrival of the last request
    """
    rows = [*range(len(names)), None] if names else [None]
    cells = [((_name(names, row),), _row(uses.bins[EVERY], row)) for row in rows]
    fits = [_fit_row(uses, names, row, end_us) for row in rows]
    notes = []
    near, total = fits[-1][-1], len(uses.uses)
    if not uses.reused[EVERY].sum():
        notes.append("no block is used twice: there are no reuse times to fit")
    elif 2 * near > total:
        notes.append(
            f"{near:,} of {total:,} blocks were last used closer to the end of the trace than 90 % of the "
            "reuse times are long: the trace is too short to tell their reuse, and p is too low"
        )
    times = histogram_table("reuse_time", ["category"], cells, TIME_DOC)
    return [times, stacked("reuse_fit", FIT_COLUMNS, fits, FIT_DOC)], notes


FIT_COLUMNS = {
    "category": pa.string(),
    "touches": pa.int64(),
    "reused": pa.int64(),
    "p": pa.float64(),
    "mean_s": pa.float64(),
    "rate_per_s": pa.float64(),
    "ks": pa.float64(),
    "log_likelihood": pa.float64(),
    "kl_nats": pa.float64(),
    "late_reused": pa.int64(),
    "late_p": pa.float64(),
    "late_rate_per_s": pa.float64(),
    "late_ks": pa.float64(),
    "late_located_rate_per_s": pa.float64(),
    "open_near_end": pa.int64(),
}


def _fit_row(uses: Uses, names: Sequence[str], row: int | None, end_us: int) -> list[Any]:
    touches = int(_row(uses.touches, row))
    every, late = (_Times.of(uses, part, row) for part in (EVERY, LATE))
    longest = quantile(every.bins, 0.9)
    near = 0
    if longest is not None:
        last = uses.last_us if row is None else uses.last_us[uses.last_kind == row]
        near = int((end_us - last < longest * 1e6).sum())
    log_likelihood, kl = every.likelihood()
    return [
        _name(names, row),
        touches,
        every.number,
        every.number / touches if touches else None,
        every.mean_s,
        every.rate,
        every.distance(),
        log_likelihood,
        kl,
        late.number,
        late.number / touches if touches else None,
        late.rate,
        late.distance(),
        late.located_rate(),
        near,
    ]


class _Times(NamedTuple):
    """Reuse times of a category: how many, their sum and the least, and their bins."""

    number: int
    total_us: int
    least_us: int
    bins: Ints

    @classmethod
    def of(cls, uses: Uses, part: int, row: int | None) -> _Times:
        number = int(_row(uses.reused[part], row))
        total_us = int(_row(uses.seconds[part], row)) * 1_000_000 + int(_row(uses.rest_us[part], row))
        least = uses.least_us[part] if row is None else uses.least_us[part, row : row + 1]
        return cls(number, total_us, int(least.min()) if number else 0, _row(uses.bins[part], row))

    @property
    def mean_s(self) -> float | None:
        return self.total_us / 1e6 / self.number if self.number else None

    @property
    def rate(self) -> float | None:
        return self.number * 1e6 / self.total_us if self.total_us else None

    def located_rate(self) -> float | None:
        spread_us = self.total_us - self.number * self.least_us
        return self.number * 1e6 / spread_us if spread_us else None

    def distance(self) -> float | None:
        """The Kolmogorov-Smirnov distance at the edges of the bins: what lies inside bins is not seen."""
        if self.rate is None:
            return None
        found = np.cumsum(self.bins) / self.number
        return float(np.abs(found + np.expm1(-self.rate * EDGES)).max())

    def likelihood(self) -> tuple[float | None, float | None]:
        """Mean log density of the fit; Kullback-Leibler divergence of its bins from those found. Nats."""
        if self.rate is None:
            return None, None
        used = np.flatnonzero(self.bins)
        low = np.concatenate([[0.0], EDGES[:-1]])[used]
        high = np.concatenate([[1e-6], EDGES[1:]])[used]  # times are whole µs: 0 is anything below one
        share = self.bins[used] / self.number
        fitted = -self.rate * low + np.log(-np.expm1(-self.rate * (high - low)))
        return float(np.log(self.rate) - 1), float((share * (np.log(share) - fitted)).sum())


def lifespan_tables(uses: Uses, names: Sequence[str], end_us: int) -> tuple[list[Table], list[str]]:
    """Tables `block_lifespan` and `lifespan_summary`, and notes. Arguments as in `reuse_tables`."""
    bins = np.zeros((len(names) or 1, LOG_BINS), np.int64)
    longest_us = np.zeros(len(names) or 1, np.int64)
    reuse_p90 = quantile(uses.bins[EVERY].sum(axis=0), 0.9)
    near = np.zeros(len(names) or 1, np.int64)
    _lifespans(uses, end_us, round((reuse_p90 or 0.0) * 1e6), bins, longest_us, near)
    cells, rows = [], []
    for row in [*range(len(names)), None] if names else [None]:
        counts = _row(bins, row)
        most = float(longest_us.max() if row is None else longest_us[row]) / 1e6
        blocks = int(counts.sum())
        points = [quantile(counts, q, high=most) for q in (0.5, 0.9, 0.99)]
        cells.append(((_name(names, row),), counts))
        reused = blocks - int(((uses.uses == 1) & (True if row is None else uses.first_kind == row)).sum())
        rows.append([_name(names, row), blocks, reused, *points, most if blocks else None, _row(near, row)])
    notes = []
    again, cut = rows[-1][2], int(rows[-1][-1])
    if again and 2 * cut > again:
        notes.append(
            f"{cut:,} of {again:,} blocks used again were still in use near the end of the trace: lifespans "
            "are too short for its span to tell"
        )
    spans = histogram_table("block_lifespan", ["category"], cells, LIFE_DOC)
    return [spans, stacked("lifespan_summary", LIFE_COLUMNS, rows, LIFE_SUMMARY_DOC)], notes


LIFE_COLUMNS = {
    "category": pa.string(),
    "blocks": pa.int64(),
    "reused_blocks": pa.int64(),
    "p50_s": pa.float64(),
    "p90_s": pa.float64(),
    "p99_s": pa.float64(),
    "max_s": pa.float64(),
    "near_end": pa.int64(),
}


@kernel
def _lifespans(made: Uses, end_us: int, near_us: int, bins: Ints, longest_us: Ints, near: Ints) -> None:
    """Bin lifespans by category of the first use (bins, longest_us, near modified)."""
    for node in range(len(made.uses)):
        kind, span = made.first_kind[node], made.last_us[node] - made.first_us[node]
        bins[kind, log_bin(span * 1e-6)] += 1
        longest_us[kind] = max(longest_us[kind], span)
        near[kind] += made.uses[node] > 1 and end_us - made.last_us[node] < near_us


def _name(names: Sequence[str], row: int | None) -> str:
    return ALL if row is None else names[row]


def _row(counts: Ints, row: int | None) -> Any:
    """The counts of one category, of all for None."""
    return counts.sum(axis=0) if row is None else counts[row]
