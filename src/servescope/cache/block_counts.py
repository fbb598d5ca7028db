"""Kernels that count what a cache of prefix blocks found: by users, by kind of request, by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.views.block_counts import RATIO_UNIT, position_bin, span

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

    Ints = npt.NDArray[np.int64]

# by group of users
REQUEST_HITS, HIT_TOKENS, BLOCK_HITS, FULL_HITS, ENGINE_TOKENS = range(5)
MEASURES = ("request_hits", "hit_tokens", "block_hits", "full_block_hits", "engine_hit_tokens")
# by kind of request
REQUESTS, REFERENCES, FOUND, TOKENS, FOUND_TOKENS, LOST_TOKENS = range(6)
KIND_COUNTS = (
    "requests",
    "block_references",
    "block_hits",
    "input_tokens",
    "hit_tokens",
    "recomputed_tokens",
)


@kernel
def prompt_tokens(prompts: Prompts) -> Ints:
    """int64[n]: tokens of each prompt by its blocks."""
    tokens = np.zeros(len(prompts.tails), np.int64)
    for request in range(len(tokens)):
        length = prompts.offsets[request + 1] - prompts.offsets[request]
        if length > 0:
            tokens[request] = (length - 1) * prompts.block_tokens + prompts.tails[request]
    return tokens


@kernel
def count_hits(
    hits: npt.NDArray[np.int32],
    tokens: Ints,
    block_tokens: int,
    codes: npt.NDArray[np.int32],
    first: int,
    totals: Ints,
) -> int:
    """Count the measures by group from request `first` on; the sum of hits / blocks, in `RATIO_UNIT`.

    hits, tokens, codes  [n], leading blocks found, tokens and group of each prompt
    totals               int64[5, groups], in the order of `MEASURES`, modified
    """
    ratios = 0
    for request in range(first, len(hits)):
        group, found = codes[request], np.int64(hits[request])
        if found == 0:
            continue
        whole = tokens[request] // block_tokens
        blocks = whole + (tokens[request] % block_tokens > 0)
        totals[REQUEST_HITS, group] += 1
        totals[HIT_TOKENS, group] += min(found * block_tokens, tokens[request])
        totals[BLOCK_HITS, group] += found
        totals[FULL_HITS, group] += min(found, whole)
        totals[ENGINE_TOKENS, group] += min(found, (tokens[request] - 1) // block_tokens) * block_tokens
        ratios += found * RATIO_UNIT // blocks
    return int(ratios)


@kernel
def count_kinds(
    hits: npt.NDArray[np.int32],
    ceiling: npt.NDArray[np.int32],
    tokens: Ints,
    block_tokens: int,
    kinds: npt.NDArray[np.int32],
    first: int,
    counts: Ints,
) -> None:
    """Count by kind of request from request `first` on.

    ceiling  int32[n], leading blocks that an unlimited cache finds
    kinds    int32[n], kind of each request
    counts   int64[kinds, 6], in the order of `KIND_COUNTS`, modified; recomputed tokens are those that an
             unlimited cache would have found
    """
    for request in range(first, len(hits)):
        row = counts[kinds[request]]
        found = min(hits[request] * block_tokens, tokens[request])
        row[REQUESTS] += 1
        row[REFERENCES] += -(-tokens[request] // block_tokens)
        row[FOUND] += hits[request]
        row[TOKENS] += tokens[request]
        row[FOUND_TOKENS] += found
        row[LOST_TOKENS] += max(0, min(ceiling[request] * block_tokens, tokens[request]) - found)


@kernel
def count_positions(hits: npt.NDArray[np.int32], lengths: Ints, first: int, counts: Ints) -> None:
    """Count references and hits by position in the prompt from request `first` on.

    counts  int64[POSITIONS, 2], by the bins of `views.block_counts.position_bin`, modified
    """
    for request in range(first, len(hits)):
        for position in range(position_bin(lengths[request] - 1) + 1 if lengths[request] else 0):
            counts[position, 0] += span(lengths[request], position)
            counts[position, 1] += span(hits[request], position)
