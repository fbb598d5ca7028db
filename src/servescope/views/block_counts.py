"""Kernels that count how many blocks of a prompt were there before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.schema import NULL_INT32

POSITIONS = 40  # bins of a block's index: 0, 1, 2-3, 4-7, …
RATIO_UNIT = 1 << 32  # ratios are summed in units of 2^-32

# by scope (all, each type, no type)
REFERENCES, SEEN, PREFIX = range(3)
# by half of the trace
REQUESTS, BLOCKS, FOUND, INPUT, FOUND_TOKENS, SESSION_BLOCKS, SESSION_TOKENS = range(7)
# over the whole trace
FULL_BLOCKS, FULL_FOUND, FULL_TOKENS, WITH_HIT, WITH_BLOCKS, RATIOS = range(6)


@kernel
def position_bin(index: int) -> int:
    """Bin of a block index: 0 for 0, then its number of binary digits."""
    digits = 0
    while index > 0:
        index >>= 1
        digits += 1
    return digits


@kernel
def span(length: int, position: int) -> int:
    """How many of the blocks 0 … length - 1 lie in a position bin."""
    low = 1 << (position - 1) if position else 0
    return max(0, min(length, 1 << position) - low)


@kernel
def count_rows(
    by_scope: npt.NDArray[np.int64],
    halves: npt.NDArray[np.int64],
    rates: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    row: int,
    half: int,
    block_tokens: int,
    offsets: npt.NDArray[np.int64],
    null: npt.NDArray[np.bool_],
    types: npt.NDArray[np.int32],
    it: npt.NDArray[np.int32],
    found: npt.NDArray[np.int64],
    found_type: npt.NDArray[np.int64],
    found_session: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
    seen_type: npt.NDArray[np.int64],
) -> None:
    """Fold rows in; a row that states no blocks is not counted.

    by_scope       int64[types + 2, 3], modified
    halves         int64[2, 7], modified
    rates          int64[6], modified
    positions      int64[types + 2, POSITIONS, 3], references and prefix blocks, modified
    row, half      request id of the first row, first request id of the last half
    found…         int64[rows], leading blocks that were there: in the trace, in the type, in the session
    seen…          int64[rows], blocks that were there anywhere: in the trace, in the type
    """
    for i in range(len(types)):
        if null[i]:
            continue
        length = offsets[i + 1] - offsets[i]
        own_scope = types[i] + 1 if types[i] >= 0 else len(by_scope) - 1
        for own in range(2):
            scope = own_scope if own else 0
            prefix = found_type[i] if own else found[i]
            by_scope[scope, REFERENCES] += length
            by_scope[scope, SEEN] += seen_type[i] if own else seen[i]
            by_scope[scope, PREFIX] += prefix
            for position in range(position_bin(length - 1) + 1 if length else 0):
                positions[scope, position, REFERENCES] += span(length, position)
                positions[scope, position, PREFIX] += span(prefix, position)
        tokens = np.int64(it[i]) if it[i] != NULL_INT32 else 0
        part = halves[1 if row + i >= half else 0]
        part[REQUESTS] += 1
        part[BLOCKS] += length
        part[FOUND] += found[i]
        part[INPUT] += tokens
        part[FOUND_TOKENS] += min(found[i] * block_tokens, tokens)
        part[SESSION_BLOCKS] += found_session[i]
        part[SESSION_TOKENS] += min(found_session[i] * block_tokens, tokens)
        full = min(length, tokens // block_tokens)
        rates[FULL_BLOCKS] += full
        rates[FULL_FOUND] += min(found[i], full)
        rates[FULL_TOKENS] += min(found[i], full) * block_tokens
        rates[WITH_HIT] += found[i] > 0
        if length:
            rates[WITH_BLOCKS] += 1
            rates[RATIOS] += found[i] * RATIO_UNIT // length


@kernel
def count_seen(
    positions: npt.NDArray[np.int64],
    own_scope: bool,
    offsets: npt.NDArray[np.int64],
    types: npt.NDArray[np.int32],
    nodes: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
) -> None:
    """Count blocks seen before by position, in the scope of all or in the scope of the row's type.

    positions      int64[types + 2, POSITIONS, 3], modified
    nodes, before  see `trie.Inserted`
    """
    for i in range(len(types)):
        scope = 0
        if own_scope:
            scope = types[i] + 1 if types[i] >= 0 else len(positions) - 1
        for j in range(offsets[i], offsets[i + 1]):
            if nodes[j] < before[i]:
                positions[scope, position_bin(j - offsets[i]), SEEN] += 1
