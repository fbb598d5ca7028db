"""The tables of `blocks`, from its finished counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.tables import ratio, stacked
from servescope.views import block_counts as at

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]
ALL = "*"
I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
REUSE = (
    "Reuse with an unlimited cache, all (*) and inside each request type's own series. seen_blocks: the id "
    "was in any earlier request, wherever it stood; prefix_blocks: leading run of blocks seen as that "
    "prefix; parent_blocks_matched: leading blocks shared with the stated parent. "
    "Nothing crosses a cache scope."
)
CEILING = (
    "What an unlimited prefix cache would save, whole trace and last half of the requests with the cache "
    "kept warm. Requests that state blocks only. same_session: found in earlier requests of the same stated "
    "session, cross_session: the rest."
)
RATES = (
    "Six hit rates of an unlimited prefix cache with their numerators and denominators. A partial tail is "
    "the last block of a prompt whose length is no multiple of the block."
)
POSITION = (
    "Blocks by their index in the prompt, all (*) and inside each request type's own series: references, "
    "those seen in an earlier request, those in its leading run."
)


def _scopes(context: Context) -> list[tuple[int, str]]:
    return list(enumerate([ALL, *context.texts.get("request_type", ())]))


def block_reuse(context: Context, by_scope: Ints, matched: Ints | None) -> Table:
    """`block_reuse`."""
    rows = []
    for scope, text in _scopes(context):
        references, seen, prefix = by_scope[scope].tolist()
        linked = [None] * 3 if matched is None else matched[scope].tolist()
        reused = (references, seen, ratio(seen, references), prefix, ratio(prefix, references))
        rows.append((text, *reused, *linked, ratio(linked[2], linked[1])))
    columns = {
        "request_type": TEXT,
        "block_references": I64,
        "seen_blocks": I64,
        "block_reuse_ratio": F64,
        "prefix_blocks": I64,
        "prefix_reuse_ratio": F64,
        "child_requests": I64,
        "child_blocks": I64,
        "parent_blocks_matched": I64,
        "parent_match_ratio": F64,
    }
    return stacked("block_reuse", columns, rows, REUSE)


def reuse_ceiling(context: Context, halves: Ints) -> Table:
    """`reuse_ceiling`."""
    rows: list[tuple[Any, ...]] = []
    stated = context.has("session_id")
    for part, counts in (("whole", halves.sum(axis=0)), ("last_half", halves[1])):
        requests, blocks, found, tokens, found_tokens, own_blocks, own_tokens = counts.tolist()
        split = (own_blocks, found - own_blocks, own_tokens, found_tokens - own_tokens)
        rows.append(
            (
                part,
                requests,
                blocks,
                found,
                ratio(found, blocks),
                tokens,
                found_tokens,
                ratio(found_tokens, tokens),
                *(split if stated else (None,) * 4),
            )
        )
    columns = {
        "part": TEXT,
        "requests": I64,
        "block_references": I64,
        "prefix_blocks": I64,
        "prefix_reuse_ratio": F64,
        "input_tokens": I64,
        "prefix_tokens": I64,
        "token_prefix_reuse_ratio": F64,
        "same_session_blocks": I64,
        "cross_session_blocks": I64,
        "same_session_tokens": I64,
        "cross_session_tokens": I64,
    }
    return stacked("reuse_ceiling", columns, rows, CEILING)


def hit_rates(halves: Ints, rates: Ints) -> Table:
    """`hit_rates`."""
    whole = halves.sum(axis=0)
    pairs: dict[str, tuple[float, int]] = {
        "block_hit_rate_partial_tails_count": (int(whole[at.FOUND]), int(whole[at.BLOCKS])),
        "block_hit_rate_full_blocks_only": (int(rates[at.FULL_FOUND]), int(rates[at.FULL_BLOCKS])),
        "token_hit_rate_partial_tails_count": (int(whole[at.FOUND_TOKENS]), int(whole[at.INPUT])),
        "token_hit_rate_full_blocks_only": (int(rates[at.FULL_TOKENS]), int(whole[at.INPUT])),
        "requests_with_any_hit": (int(rates[at.WITH_HIT]), int(whole[at.REQUESTS])),
        "mean_of_request_block_ratios": (
            int(rates[at.RATIOS]) / at.RATIO_UNIT,
            int(rates[at.WITH_BLOCKS]),
        ),
    }
    rows = [(name, float(part), count, ratio(part, count)) for name, (part, count) in pairs.items()]
    columns = {"name": TEXT, "numerator": F64, "denominator": I64, "value": F64}
    return stacked("hit_rates", columns, rows, RATES)


def reuse_position(context: Context, positions: Ints) -> Table:
    """`reuse_position`."""
    rows = []
    for scope, text in _scopes(context):
        for position in np.flatnonzero(positions[scope, :, at.REFERENCES]).tolist():
            low = 1 << (position - 1) if position else 0
            rows.append((text, low, (1 << position) - 1, *positions[scope, position].tolist()))
    counted = ("position_low", "position_high", "block_references", "seen_blocks", "prefix_blocks")
    columns = {"request_type": TEXT, **dict.fromkeys(counted, I64)}
    return stacked("reuse_position", columns, rows, POSITION)
