"""Tables about a sweep of prefix blocks beside `cache`: hit rates by their names, who was hit, what ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from servescope.cache import block_counts as at
from servescope.cache.limits import block_limits
from servescope.tables import ratio, stacked
from servescope.views.block_counts import RATIO_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servescope.cache.blocks import BlockCounted, BlockWorkload
    from servescope.cache.sweep_tables import Swept
    from servescope.result import Table

I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
RATES = {
    "policy": TEXT,
    "capacity_blocks": I64,
    "name": TEXT,
    "numerator": F64,
    "denominator": I64,
    "value": F64,
    "model": TEXT,
}
RATES_DOC = (
    "The hit rates of a cell by their names, with what is divided by what, after the warm-up. A partial tail "
    "is the last block of a prompt whose length is no multiple of the block. engine: whole blocks only, and "
    "never the last token of a prompt, as vLLM counts."
)
KINDS = {
    "policy": TEXT,
    "capacity_blocks": I64,
    "category": TEXT,
    **dict.fromkeys(at.KIND_COUNTS, I64),
    "block_hit_ratio": F64,
    "token_hit_ratio": F64,
    "model": TEXT,
}
KINDS_DOC = (
    "Hits by request type and turn, after the warm-up. recomputed_tokens: tokens that an unlimited cache "
    "would have found and this one did not, the price of its evictions."
)
POSITIONS = {
    "policy": TEXT,
    "capacity_blocks": I64,
    "position_low": I64,
    "position_high": I64,
    "block_references": I64,
    "block_hits": I64,
    "block_hit_ratio": F64,
    "model": TEXT,
}
POSITIONS_DOC = "Hits by the index of the block in its prompt, from 0, after the warm-up."
WORKLOAD = {
    "model": TEXT,
    "requests": I64,
    "warmup_requests": I64,
    "block_references": I64,
    "distinct_blocks": I64,
    "block_tokens": I64,
    "input_tokens": I64,
    "longest_prompt_blocks": I64,
    "block_hit_ceiling": F64,
    "token_hit_ceiling": F64,
    "first_half_hit_share": F64,
    "scope_lost_blocks": I64,
    "turns_from": TEXT,
    "users": I64,
    "heaviest_share": F64,
}
WORKLOAD_DOC = (
    "What was replayed. ceilings: ratios of a cache without limit, after the warm-up. first_half_hit_share: "
    "its hits in the first half of the requests / in all, below 0.5 where the trace only warms the cache up. "
    "scope_lost_blocks: blocks that would be found if cache scopes did not keep them apart. heaviest_share: "
    "requests of the user with most of them, after the warm-up."
)
DETAILS = {"policy": TEXT, "capacity_blocks": I64, "name": TEXT, "value": F64, "model": TEXT}
DETAILS_DOC = "What policies tell of themselves at the end of a replay."


def block_tables(sweeps: Sequence[Swept]) -> list[Table]:
    """What was replayed, hit rates by name, by category, by position; limits; what policies tell."""
    cells = list(_cells(sweeps))
    positions = [row for cell in cells for row in _positions(*cell)]
    made = [
        stacked("block_workload", WORKLOAD, [about(swept.workload) for swept in sweeps], WORKLOAD_DOC),
        stacked("block_hit_rates", RATES, [row for cell in cells for row in _rates(*cell)], RATES_DOC),
        stacked("cache_by_category", KINDS, [row for cell in cells for row in _kinds(*cell)], KINDS_DOC),
        stacked("cache_by_position", POSITIONS, positions, POSITIONS_DOC),
        block_limits(sweeps),
    ]
    details = [
        [policy, blocks, name, value, made_of.name]
        for policy, blocks, made_of, counted in cells
        for name, value in counted.details.items()
    ]
    return [*made, *([stacked("policy_details", DETAILS, details, DETAILS_DOC)] if details else [])]


def _cells(sweeps: Sequence[Swept]) -> Iterator[tuple[str, int, Any, Any]]:
    for swept in sweeps:
        for policy, choice in enumerate(swept.choices):
            for size, at_size in enumerate(swept.sizes):
                yield choice.text, at_size.blocks or 0, swept.workload, swept.of(policy, size)


def _rates(policy: str, blocks: int, made: BlockWorkload, counted: BlockCounted) -> list[list[Any]]:
    totals = dict(zip(at.MEASURES, counted.totals.sum(axis=1).tolist(), strict=True))
    bases = {name: int(base.sum()) for name, base in made.bases.items()}
    tokens, whole = made.tokens[made.first :], made.prompts.block_tokens
    full_tokens = totals["full_block_hits"] * whole
    pairs: dict[str, tuple[float, int]] = {
        "block_hit_rate_partial_tails_count": (totals["block_hits"], bases["block_references"]),
        "block_hit_rate_full_blocks_only": (totals["full_block_hits"], bases["full_block_references"]),
        "token_hit_rate_partial_tails_count": (totals["hit_tokens"], bases["input_tokens"]),
        "token_hit_rate_full_blocks_only": (full_tokens, bases["input_tokens"]),
        "token_hit_rate_engine": (totals["engine_hit_tokens"], bases["input_tokens"]),
        "requests_with_any_hit": (totals["request_hits"], bases["requests"]),
        "mean_of_request_block_ratios": (counted.ratios / RATIO_UNIT, int((tokens > 0).sum())),
    }
    return [
        [policy, blocks, name, float(part), base, ratio(part, base), made.name]
        for name, (part, base) in pairs.items()
    ]


def _kinds(policy: str, blocks: int, made: BlockWorkload, counted: BlockCounted) -> list[list[Any]]:
    rows = []
    for name, counts in zip(made.categories.names, counted.kinds.tolist(), strict=True):
        found = dict(zip(at.KIND_COUNTS, counts, strict=True))
        ratios = (
            ratio(found["block_hits"], found["block_references"]),
            ratio(found["hit_tokens"], found["input_tokens"]),
        )
        rows.append([policy, blocks, name, *counts, *ratios, made.name])
    return rows


def _positions(policy: str, blocks: int, made: BlockWorkload, counted: BlockCounted) -> list[list[Any]]:
    rows = []
    for position in np.flatnonzero(counted.positions[:, 0]).tolist():
        references, hits = counted.positions[position].tolist()
        low = 1 << (position - 1) if position else 0
        rows.append(
            [policy, blocks, low, (1 << position) - 1, references, hits, ratio(hits, references), made.name]
        )
    return rows


def about(made: Any) -> list[Any]:
    """One row of the table `block_workload`."""
    prompts, first = made.prompts, made.first
    lengths, ceiling = np.diff(prompts.offsets), made.ceiling.astype(np.int64)
    saved = np.minimum(ceiling * prompts.block_tokens, made.tokens)
    is_user = made.clusters.kind == "user"
    counts = made.bases["requests"]
    return [
        made.name,
        made.rows,
        first,
        int(prompts.offsets[-1]),
        prompts.known,
        prompts.block_tokens,
        int(made.tokens.sum()),
        int(lengths.max(initial=0)),
        ratio(int(ceiling[first:].sum()), int(lengths[first:].sum())),
        ratio(int(saved[first:].sum()), int(made.tokens[first:].sum())),
        ratio(int(ceiling[: made.rows // 2].sum()), int(ceiling.sum())),
        made.scope_lost,
        made.categories.source,
        made.clusters.members if is_user else None,
        ratio(int(counts[made.clusters.heaviest]), int(counts.sum())) if is_user else None,
    ]
