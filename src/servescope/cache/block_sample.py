"""LRU's curve from a sample of the prefix tree, for traces that do not fit in memory.

The tree is cut at a depth; what hangs below one node there is a subtree, and a request belongs to the one
that its prompt goes into (to its last block where it is shorter). Subtrees are drawn by a hash with
probability `rate` and all requests of a drawn one are followed (spatial sampling: Waldspurger et al.,
FAST 2015). A block stands behind the blocks before it in its own prompt, which are all followed, and
behind others, of which a part is: own + (position - own) / rate is its position in the whole. Blocks above
the cut are shared with requests that are not followed, so theirs come out too large: below
`resolved_blocks` (the followed trunk / rate) the sample overstates misses.

The error is that of the draw: subtrees are dealt into `GROUPS` groups at random, and the ratio's spread
over the groups gives its standard error (a ratio estimator). Where a position rests on a handful of
followed subtrees the curve is also smeared over the capacities around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.cache.block_curve import PIECE_ROWS, Order
from servescope.cache.prompts import tail_tokens
from servescope.errors import DataError, UsageError
from servescope.kernels.histogram import EDGES, LOG_BINS, log_bin
from servescope.kernels.jit import kernel
from servescope.kernels.trie import Trie
from servescope.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.result import Table
    from servescope.trace import Batch, Trace

    Ints = npt.NDArray[np.int64]

GROUPS = 64
HEAVIEST = 0.01  # a subtree at the cut holds at most this part of the first requests
DEEPEST_CUT = 64  # blocks
LOOK_ROWS = 100_000  # requests that decide where the tree is cut
BLOCKS, TOKENS = range(2)
DOC = (
    "What an LRU cache of prefix blocks would have found, estimated from sampled subtrees of the prefix "
    "tree, by capacity at the edges of log bins (100 a decade). ratio_error: standard error of the ratio "
    "from the spread over groups of subtrees."
)


@dataclass
class Sample:
    """Followed prompts by position and group. Changed by `add`.

    cut     blocks from the start of a prompt that decide its subtree
    found   int64[LOG_BINS, GROUPS, 2], blocks and tokens by log bin of their position in the sample
    totals  int64[GROUPS, 3]: blocks, tokens, requests that are followed
    """

    rate: float
    seed: int
    cut: int
    tree: Trie = field(default_factory=Trie)
    order: Order = field(default_factory=Order)
    found: Ints = field(default_factory=lambda: np.zeros((LOG_BINS, GROUPS, 2), np.int64))
    totals: Ints = field(default_factory=lambda: np.zeros((GROUPS, 3), np.int64))
    requests: int = 0
    references: int = 0

    def add(self, batch: Batch, block_tokens: int) -> None:
        """Follow the drawn prompts of the next rows."""
        scopes = np.full(batch.rows, -1, np.int64)
        if "cache_scope" in batch.columns:
            scopes = batch["cache_scope"].astype(np.int64)
        offsets, values = batch.block_offsets, batch.block_values
        lengths = np.diff(offsets)
        tokens = np.full(batch.rows, -1, np.int64)
        if "input_tokens" in batch.columns:
            tokens = batch["input_tokens"].astype(np.int64)
        keys = _subtrees(scopes, offsets, values, self.cut, np.uint64(self.seed))
        stated = ~batch.block_null
        self.requests += int(stated.sum())
        self.references += int(lengths[stated].sum())
        followed = np.flatnonzero(stated & ((keys >> np.uint64(1)).astype(np.int64) < self.rate * 2.0**63))
        tails = tail_tokens(tokens, lengths, block_tokens)
        for low in range(0, len(followed), PIECE_ROWS):
            rows = followed[low : low + PIECE_ROWS]
            bounds = np.concatenate([[0], np.cumsum(lengths[rows])])
            piece = _gather(offsets, values, rows, bounds)
            put = self.tree.insert(scopes[rows], bounds, piece)
            nodes = put.nodes.astype(np.int32)
            positions = self.order.positions(bounds, nodes, self.tree.used)
            groups = (keys[rows] % np.uint64(GROUPS)).astype(np.int64)
            _count(positions, bounds, tails[rows], block_tokens, self.rate, groups, self.found, self.totals)

    def trunk(self) -> int:
        """Followed nodes above the cut below which the tree branches: the ones that others may share."""
        used = self.tree.used
        return int(_shared(self.tree.parents[:used], self.tree.depths[:used], self.cut))


def sampled_curve(
    trace: Trace, rate: float, *, seed: int = 10, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Table], list[str]]:
    """Tables `curve_sample` and `curve_sample_about`, and notes; reads the trace once, as a stream.

    rate      probability of a subtree to be followed, above 0 to 1
    progress  called with (rows read, rows in all)

    Holds about 40 bytes a followed node. Raises UsageError for a rate out of range or a trace without
    blocks, DataError where nothing is drawn.
    """
    if not 0 < rate <= 1:
        raise UsageError(f"--sample is {rate}; give the part of the subtrees to follow, above 0 to 1.")
    if not trace.has("block_ids") or trace.meta.block_tokens is None:
        raise UsageError("the trace has no prefix blocks to sample; --unit session needs no sample.")
    held = ["arrival_us", "block_ids"]
    held += [name for name in ("cache_scope", "input_tokens") if trace.has(name)]
    sample = Sample(rate, seed, _cut(trace, held))
    done = 0
    for batch in trace.batches(held):
        sample.add(batch, trace.meta.block_tokens)
        done += batch.rows
        if progress is not None:
            progress(done, trace.rows)
    if not sample.totals[:, 0].sum():
        raise DataError(f"a sample of {rate:g} draws no prompt of this trace; give a larger part.")
    return [_table(sample, trace.meta.block_tokens), _about(sample)], _notes(sample)


def _cut(trace: Trace, held: list[str]) -> int:
    """The least depth at which no node holds more than `HEAVIEST` of the first requests."""
    batch = next(iter(trace.batches(held, first=0, last=1)))
    rows = min(batch.rows, LOOK_ROWS)
    scopes = np.full(rows, -1, np.int64)
    if "cache_scope" in batch.columns:
        scopes = batch["cache_scope"][:rows].astype(np.int64)
    for cut in range(1, DEEPEST_CUT):
        keys = _subtrees(scopes, batch.block_offsets[: rows + 1], batch.block_values, cut, np.uint64(0))
        if np.unique(keys, return_counts=True)[1].max(initial=0) <= max(1, HEAVIEST * rows):
            return cut
    return DEEPEST_CUT


def _table(sample: Sample, block_tokens: int) -> Table:
    """Ratios at the upper edges of the bins that hold anything."""
    bins = np.flatnonzero(sample.found.any(axis=(1, 2)))
    found = np.cumsum(sample.found, axis=0)[bins]
    totals = sample.totals
    capacity = np.ceil(EDGES[bins]).astype(np.int64) - 1  # the upper edge of bin k is EDGES[k]
    columns: dict[str, tuple[pa.DataType, object]] = {
        "policy": (pa.string(), ["lru"] * len(bins)),
        "capacity_blocks": (pa.int64(), capacity),
        "capacity_tokens": (pa.int64(), capacity * block_tokens),
    }
    for kind, name in ((BLOCKS, "block_hit_ratio"), (TOKENS, "token_hit_ratio")):
        ratios, errors = _ratio(found[:, :, kind], totals[:, kind])
        errors *= np.sqrt(1 - sample.rate)  # of a part of a finite tree
        columns[name] = (pa.float64(), ratios)
        columns[f"{name}_error"] = (pa.float64(), errors)
    return table("curve_sample", columns, DOC)


def _ratio(parts: Ints, wholes: Ints) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Ratio of sums over groups, and its standard error (linearised ratio estimator), by row."""
    ratios = parts.sum(axis=1) / wholes.sum()
    residuals = parts - ratios[:, None] * wholes
    groups = len(wholes)
    return ratios, np.sqrt(groups / (groups - 1) * (residuals**2).sum(axis=1)) / wholes.sum()


def _about(sample: Sample) -> Table:
    counts = {
        "sampled_part": (pa.float64(), [sample.rate]),
        "cut_blocks": (pa.int64(), [sample.cut]),
        "requests": (pa.int64(), [sample.requests]),
        "followed_requests": (pa.int64(), [int(sample.totals[:, 2].sum())]),
        "block_references": (pa.int64(), [sample.references]),
        "followed_references": (pa.int64(), [int(sample.totals[:, 0].sum())]),
        "followed_blocks": (pa.int64(), [sample.tree.used]),
        "estimated_distinct_blocks": (pa.int64(), [round(sample.tree.used / sample.rate)]),
        "resolved_blocks": (pa.int64(), [round(sample.trunk() / sample.rate)]),
    }
    return table(
        "curve_sample_about", counts, "What a sample of the prefix tree followed, and what it is of."
    )


def _notes(sample: Sample) -> list[str]:
    part = sample.totals[:, 0].sum() / max(1, sample.references)
    return [
        f"{sample.rate:g} of the subtrees at {sample.cut} blocks are followed: {part:.3%} of the block "
        f"references; below {round(sample.trunk() / sample.rate):,} blocks the sample overstates misses"
    ]


@kernel
def _shared(parents: Ints, depths: npt.NDArray[np.int32], cut: int) -> int:
    """Nodes above the cut with two children, or above such a node."""
    children = np.zeros(len(parents), np.int32)
    shared = np.zeros(len(parents), np.bool_)
    number = 0
    for node in range(len(parents) - 1, -1, -1):  # children stand behind their parents
        branches = depths[node] < cut and (shared[node] or children[node] > 1)
        number += branches
        if parents[node] >= 0:
            children[parents[node]] += 1
            shared[parents[node]] |= branches
    return number


@kernel
def _mix(value: np.uint64) -> np.uint64:
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def _subtrees(
    scopes: Ints, offsets: Ints, values: npt.NDArray[np.uint64], cut: int, seed: np.uint64
) -> npt.NDArray[np.uint64]:
    """uint64[n]: hash of scope and of the first `cut` blocks of each prompt."""
    keys = np.empty(len(scopes), np.uint64)
    for row in range(len(scopes)):
        key = _mix(seed + np.uint64(0x9E3779B97F4A7C15) * np.uint64(scopes[row] + 2))
        for place in range(offsets[row], min(offsets[row + 1], offsets[row] + cut)):
            key = _mix(key ^ values[place]) + np.uint64(0x9E3779B97F4A7C15)
        keys[row] = _mix(key)
    return keys


@kernel
def _gather(
    offsets: Ints, values: npt.NDArray[np.uint64], rows: Ints, bounds: Ints
) -> npt.NDArray[np.uint64]:
    """Block ids of the chosen rows, one after the other."""
    found = np.empty(bounds[-1], np.uint64)
    for number in range(len(rows)):
        low = offsets[rows[number]]
        for place in range(bounds[number + 1] - bounds[number]):
            found[bounds[number] + place] = values[low + place]
    return found


@kernel
def _count(
    positions: npt.NDArray[np.int32],
    offsets: Ints,
    tails: npt.NDArray[np.int32],
    block_tokens: int,
    rate: float,
    groups: Ints,
    found: Ints,
    totals: Ints,
) -> None:
    """Count blocks and tokens by log bin of position, and in all, by group. Changes found and totals."""
    for row in range(len(tails)):
        low, high = offsets[row], offsets[row + 1]
        group = groups[row]
        totals[group, 2] += 1
        for place in range(low, high):
            tokens = tails[row] if place == high - 1 else block_tokens
            totals[group, BLOCKS] += 1
            totals[group, TOKENS] += tokens
            if positions[place] > 0:
                own = place - low + 1
                place_bin = log_bin(own + (positions[place] - own) / rate)
                found[place_bin, group, BLOCKS] += 1
                found[place_bin, group, TOKENS] += tokens
