"""Kernels that make typed requests with block ids: chains as in `chains`, prompts as runs of ids.

A prompt is a list of segments: from a block position on, ids count up from a first one. New blocks
take the next free ids, so a session of any length holds only its segments, and the number of
distinct blocks is known at once. Ids are chained: an id stands for one whole prefix.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from chains import POOL, draw, happens, postpone

from servescope.kernels.jit import kernel

Ints = npt.NDArray[np.int64]
BLOCK_TOKENS = 16
SEGMENTS = 160  # of one prompt; a session that would need more ends

# fields of a chain, and of a row
KIND, TURN, TOKENS, OUTPUT, LAST, PARENT, SESSION, COUNT = range(8)
CHAIN_FIELDS = 8
ROW_KIND, ROW_START_US, ROW_TOKENS, ROW_OUTPUT, ROW_PARENT, ROW_SESSION, ROW_TURN = range(7)
ROW_FIELDS = 7
# pools of a kind; templates are picked by index
FIRSTS, NEWS, OUTPUTS, THINKS_MS, RESTS_MS, TEMPLATES = range(6)
POOLS = 6
# facts of a kind: chances in 2^-32, sizes in blocks, first id of its templates
AGAIN_FIRST, AGAIN_LATER, SHORTENED, TEMPLATE_BLOCKS, FIRST_ID, FRESH_EACH_TURN, MOST_TOKENS = range(7)
FACTS = 7


@kernel
def _start(chain: Ints, segments: Ints, facts: Ints, template: int, fresh: int) -> int:
    """Lay out a prompt that begins with a template (chain, segments modified): next free id."""
    whole = chain[TOKENS] // BLOCK_TOKENS
    blocks = -(-chain[TOKENS] // BLOCK_TOKENS)
    shared = min(facts[TEMPLATE_BLOCKS], whole)
    chain[COUNT] = 0
    if shared:
        segments[0, 0], segments[0, 1] = 0, facts[FIRST_ID] + template * facts[TEMPLATE_BLOCKS]
        chain[COUNT] = 1
    if blocks > shared:
        segments[chain[COUNT], 0], segments[chain[COUNT], 1] = shared, fresh
        chain[COUNT] += 1
    return fresh + blocks - shared


@kernel
def _extend(chain: Ints, segments: Ints, kept_tokens: int, fresh: int) -> int:
    """Keep the whole blocks of a history, then new ones (chain, segments modified): next free id."""
    kept = kept_tokens // BLOCK_TOKENS
    blocks = -(-chain[TOKENS] // BLOCK_TOKENS)
    while chain[COUNT] > 0 and segments[chain[COUNT] - 1, 0] >= kept:
        chain[COUNT] -= 1
    segments[chain[COUNT], 0], segments[chain[COUNT], 1] = kept, fresh
    chain[COUNT] += 1
    return fresh + blocks - kept


@kernel
def _turn(
    chain: Ints,
    segments: Ints,
    row: int,
    pools: npt.NDArray[np.int32],
    facts: Ints,
    fresh: int,
    state: npt.NDArray[np.uint64],
) -> int:
    """Advance a chain by one request (chain, segments, state modified): next free id."""
    bits = draw(state)
    mask = np.uint64(POOL - 1)
    first = np.int64(pools[FIRSTS, np.int64(bits & mask)])
    new = np.int64(pools[NEWS, np.int64((bits >> np.uint64(16)) & mask)])
    template = np.int64(pools[TEMPLATES, np.int64((bits >> np.uint64(32)) & mask)])
    history = chain[TOKENS] + chain[OUTPUT]
    before = chain[TOKENS]
    shortened = happens(state, facts[SHORTENED])
    follows = chain[TURN] > 0
    chain[PARENT] = chain[LAST] if follows else -1
    chain[TURN] += 1
    if not follows:
        chain[SESSION] = row
    if not follows or shortened or facts[FRESH_EACH_TURN]:
        chain[TOKENS] = first
        fresh = _start(chain, segments, facts, template, fresh)
    else:
        chain[TOKENS] = history + new
        fresh = _extend(chain, segments, before, fresh)
    chain[OUTPUT] = pools[OUTPUTS, np.int64(bits >> np.uint64(48))]
    chain[LAST] = row
    return fresh


@kernel
def _wait_us(
    chain: Ints, pools: npt.NDArray[np.int32], facts: Ints, busy: float, state: npt.NDArray[np.uint64]
) -> int:
    """Time to the chain's next request; ends the session (chain, state modified) or not."""
    again = facts[AGAIN_FIRST if chain[TURN] == 1 else AGAIN_LATER]
    pick = np.int64(draw(state) & np.uint64(POOL - 1))
    full = chain[TOKENS] + chain[OUTPUT] > facts[MOST_TOKENS] or chain[COUNT] >= SEGMENTS - 1
    if full or not happens(state, again):
        chain[TURN] = 0
        return np.int64(pools[RESTS_MS, pick] * 1_000 / busy) + 1
    return np.int64(pools[THINKS_MS, pick]) * 1_000 + 12_000 * chain[OUTPUT] + 1


@kernel
def send(
    row: int,
    last: int,
    times: Ints,
    queue: npt.NDArray[np.int32],
    chains: Ints,
    segments: Ints,
    pools: npt.NDArray[np.int32],
    facts: Ints,
    busy: npt.NDArray[np.float64],
    busy_us: int,
    fresh: int,
    most_fresh: int,
    state: npt.NDArray[np.uint64],
    out: Ints,
    offsets: Ints,
    values: npt.NDArray[np.uint64],
) -> tuple[int, int]:
    """Send requests from number `row` up to before `last`, in time order: rows sent, next free id.

    times, queue       see `chains.postpone`, modified
    chains, segments   int64[chains, CHAIN_FIELDS], int64[chains, SEGMENTS, 2] (position, id), modified
    pools, facts       int32[kinds, POOLS, POOL], int64[kinds, FACTS]
    busy, busy_us      float64[n], relative rate by stretches of that length
    fresh, most_fresh  next free id; a group ends once ids reach the second
    state              uint64[1], modified
    out                int64[last - row, ROW_FIELDS], modified
    offsets, values    int64[last - row + 1], uint64[…]: block ids, modified; a group ends before its room
    """
    count, filled = 0, np.int64(0)
    offsets[0] = 0
    while row + count < last and fresh < most_fresh:
        chain, runs = chains[queue[0]], segments[queue[0]]
        kind = chain[KIND]
        if filled + 2 * facts[kind, MOST_TOKENS] // BLOCK_TOKENS > len(values):
            break
        start = times[0]
        fresh = _turn(chain, runs, row + count, pools[kind], facts[kind], fresh, state)
        blocks = -(-chain[TOKENS] // BLOCK_TOKENS)
        for k in range(chain[COUNT]):
            low = runs[k, 0]
            high = runs[k + 1, 0] if k + 1 < chain[COUNT] else blocks
            for position in range(low, high):
                values[filled + position] = np.uint64(runs[k, 1] + position - low)
        filled += blocks
        line = out[count]
        line[ROW_KIND], line[ROW_START_US], line[ROW_TOKENS] = kind, start, chain[TOKENS]
        line[ROW_OUTPUT], line[ROW_PARENT] = chain[OUTPUT], chain[PARENT]
        line[ROW_SESSION], line[ROW_TURN] = chain[SESSION], chain[TURN]
        count += 1
        offsets[count] = filled
        rate = busy[min(start // busy_us, len(busy) - 1)]
        postpone(times, queue, start + _wait_us(chain, pools[kind], facts[kind], rate, state))
    return count, fresh
