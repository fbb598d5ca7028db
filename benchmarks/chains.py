"""Kernels that make sessions: an event queue of chains, and the requests that each chain sends.

A chain is one place where a user works: it sends a session turn after turn, rests, and starts the
next session. All chains wait in one queue; the earliest event is taken, so rows come in time order
and the memory is that of the chains, whatever the number of rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Ints = npt.NDArray[np.int64]
POOL = 1 << 16  # values are drawn once and picked at random: a logarithm a row would dominate the run
HOUR_US = 3_600_000_000

# fields of a chain; the pace is in thousandths
CHAIN_USER, CHAIN_MODEL, CHAIN_ENDPOINT, CHAIN_REST = range(4)
CHAIN_TURN, CHAIN_BASE, CHAIN_INPUT, CHAIN_OUTPUT, CHAIN_LAST, CHAIN_PARENT, CHAIN_SESSION, CHAIN_PACE = (
    range(4, 12)
)
CHAIN_FIELDS = 12
# fields of a row
USER, MODEL, ENDPOINT, START_US, END_US, INPUT, OUTPUT, CACHED, TTFT_US, SESSION, PARENT, TURN, DRAW = range(
    13
)
ROW_FIELDS = 13
# pools
FIRSTS, NEWS, OUTPUTS, THINKS_MS, PACES, RESTS_MS = range(6)
# chances, in 2^-32
AGAIN_FIRST, AGAIN_LATER, SHORTENED, REPEATED, OVERLAPPING, HIT = range(6)


@kernel
def draw(state: npt.NDArray[np.uint64]) -> np.uint64:
    """The next 64 random bits (SplitMix64; Steele, Lea, Flood 2014). state: uint64[1], modified."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def happens(state: npt.NDArray[np.uint64], chance: int) -> bool:
    """Whether something of that chance (in 2^-32) happens."""
    return np.int64(draw(state) >> np.uint64(32)) < chance


@kernel
def postpone(times: Ints, chains: npt.NDArray[np.int32], time: int) -> None:
    """Move the first event of the queue to a later time.

    times, chains  int64[n], int32[n], a binary heap by (time, chain), modified
    """
    n, chain, at = len(times), chains[0], 0
    while True:
        low = 2 * at + 1
        if low >= n:
            break
        other = low + 1
        if other < n and (
            times[other] < times[low] or (times[other] == times[low] and chains[other] < chains[low])
        ):
            low = other
        if times[low] > time or (times[low] == time and chains[low] > chain):
            break
        times[at], chains[at] = times[low], chains[low]
        at = low
    times[at], chains[at] = time, chain


@kernel
def _prompt(
    chain: Ints,
    row: int,
    pools: npt.NDArray[np.int32],
    chances: Ints,
    state: npt.NDArray[np.uint64],
) -> int:
    """Advance a chain by one request (modified): tokens of its prompt that were there before."""
    bits = draw(state)
    new = np.int64(pools[NEWS, np.int64(bits & np.uint64(POOL - 1))])
    first = np.int64(pools[FIRSTS, np.int64((bits >> np.uint64(16)) & np.uint64(POOL - 1))])
    output = np.int64(pools[OUTPUTS, np.int64((bits >> np.uint64(32)) & np.uint64(POOL - 1))])
    held = np.int64(0)
    if chain[CHAIN_TURN] == 0:
        chain[CHAIN_SESSION], chain[CHAIN_PARENT], chain[CHAIN_BASE] = row, -1, 0
        chain[CHAIN_TURN], chain[CHAIN_INPUT] = 1, first
        chain[CHAIN_PACE] = pools[PACES, np.int64(bits >> np.uint64(48))]
    elif chain[CHAIN_TURN] > 1 and happens(state, chances[REPEATED]):
        # another try at the last turn: the same parent, another question
        held = chain[CHAIN_BASE]
        chain[CHAIN_INPUT] = held + new
    else:
        history = chain[CHAIN_INPUT] + chain[CHAIN_OUTPUT]
        chain[CHAIN_PARENT] = chain[CHAIN_LAST]
        chain[CHAIN_TURN] += 1
        if happens(state, chances[SHORTENED]):
            chain[CHAIN_BASE] = 0
            chain[CHAIN_INPUT] = min(first, history)
        else:
            held = chain[CHAIN_BASE] = history
            chain[CHAIN_INPUT] = held + new
    chain[CHAIN_OUTPUT], chain[CHAIN_LAST] = output, row
    return held


@kernel
def _next_us(
    chain: Ints,
    start_us: int,
    end_us: int,
    limit_tokens: int,
    busy: npt.NDArray[np.float64],
    pools: npt.NDArray[np.int32],
    chances: Ints,
    state: npt.NDArray[np.uint64],
) -> int:
    """When the chain (modified) sends again, microseconds."""
    again = chances[AGAIN_FIRST if chain[CHAIN_TURN] == 1 else AGAIN_LATER]
    pick = np.int64(draw(state) & np.uint64(POOL - 1))
    slow = 1.0 / busy[(end_us // HOUR_US) % len(busy)]
    if chain[CHAIN_INPUT] + chain[CHAIN_OUTPUT] > limit_tokens or not happens(state, again):
        chain[CHAIN_TURN] = 0
        rest_us = np.int64(pools[RESTS_MS, pick]) * chain[CHAIN_REST]  # thousandths of milliseconds
        return end_us + np.int64(rest_us * slow) + 1
    if happens(state, chances[OVERLAPPING]):
        share = np.int64(draw(state) & np.uint64(POOL - 1))
        return start_us + (end_us - start_us) * share // POOL + 1
    think_us = np.int64(pools[THINKS_MS, pick]) * chain[CHAIN_PACE]
    return end_us + np.int64(think_us * slow) + 1


@kernel
def send(
    rows: int,
    first_row: int,
    limit_tokens: int,
    times: Ints,
    queue: npt.NDArray[np.int32],
    chains: Ints,
    pools: npt.NDArray[np.int32],
    chances: Ints,
    busy: npt.NDArray[np.float64],
    state: npt.NDArray[np.uint64],
    out: Ints,
) -> None:
    """Send the next `rows` requests of all chains, in time order.

    first_row       number of the first
    limit_tokens    a session whose context exceeds it ends
    times, queue    see `postpone`, modified
    chains          int64[chains, CHAIN_FIELDS], modified
    pools           int32[6, POOL]: tokens, milliseconds, thousandths
    chances         int64[6], in 2^-32
    busy            float64[n], relative rate by hour
    state           uint64[1], modified
    out             int64[rows, ROW_FIELDS], modified; PARENT is -1 on a first turn
    """
    for i in range(rows):
        chain = chains[queue[0]]
        start = times[0]
        held = _prompt(chain, first_row + i, pools, chances, state)
        cached = held // 16 * 16 if happens(state, chances[HIT]) else 0
        bits = draw(state)
        wait_us = 80_000 + np.int64(bits & np.uint64(0xFFFFF)) // 4  # up to a third of a second in the queue
        wait_us += 40 * (chain[CHAIN_INPUT] - cached)  # 25,000 prompt tokens/s
        end = start + wait_us + 12_000 * chain[CHAIN_OUTPUT]  # 83 output tokens/s
        row = out[i]
        row[USER], row[MODEL], row[ENDPOINT] = chain[CHAIN_USER], chain[CHAIN_MODEL], chain[CHAIN_ENDPOINT]
        row[START_US], row[END_US], row[TTFT_US] = start, end, wait_us
        row[INPUT], row[OUTPUT], row[CACHED] = chain[CHAIN_INPUT], chain[CHAIN_OUTPUT], cached
        row[SESSION], row[PARENT], row[TURN] = chain[CHAIN_SESSION], chain[CHAIN_PARENT], chain[CHAIN_TURN]
        row[DRAW] = np.int64(bits >> np.uint64(32))
        postpone(times, queue, _next_us(chain, start, end, limit_tokens, busy, pools, chances, state))
