"""LRU over prefix blocks at every capacity, exactly, in one pass.

A request uses the blocks of its prompt from the last to the first, so blocks stand in order of last use,
deeper ones behind, and a cache of C blocks holds the first C of them: also where a prompt is longer than
the cache and keeps its first blocks. A block is found by every cache that is at least as large as its
position (Mattson et al., 1970), and with it all blocks before it in the prompt, which stand further ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels import recency
from servescope.kernels.jit import kernel
from servescope.kernels.trie import longer
from servescope.result import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.cache.prompts import Prompts
    from servescope.kernels.recency import Words

    Ints = npt.NDArray[np.int64]

SMALLEST = 1 << 12
PIECE_ROWS = 1 << 13  # prompts whose positions are held at a time
DOC = (
    "What an LRU cache of prefix blocks would have found, at every capacity where a value changes: requests "
    "with a hit, blocks found from the start of their prompt, and their tokens (partial last blocks with the "
    "tokens they hold). Exact."
)


class Piece(NamedTuple):
    """Some prompts one after the other, with where their blocks stood.

    first      number of the first of them
    offsets    int64[rows + 1], bounds of the prompts in `positions`
    tails      int32[rows], as in `Prompts`
    positions  int32[references], see `Order.positions`
    """

    first: int
    offsets: Ints
    tails: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]


@dataclass
class Order:
    """Where every node stands in order of last use. Grown by `positions`.

    slots       int32[nodes or more], time slot of the last use, -1: none
    bits, sums  see `kernels.recency`
    state       int64[2]: the next free slot, slots taken (the distinct nodes so far)
    """

    slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.full(SMALLEST, -1, np.int32))
    bits: Words = field(default_factory=lambda: np.zeros(SMALLEST // 32, np.uint64))
    sums: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(SMALLEST // 32 + 1, np.int32))
    state: Ints = field(default_factory=lambda: np.zeros(2, np.int64))

    def positions(self, offsets: Ints, nodes: npt.NDArray[np.int32], known: int) -> npt.NDArray[np.int32]:
        """Use prompts: int32[references], position of each block before its request, 0 where it is new.

        offsets, nodes  as in `Prompts`, of these prompts alone; known: nodes of the tree so far

        Changes the order. Each request sees those before it, never itself.
        """
        if known > len(self.slots):
            used = len(self.slots)
            self.slots = longer(self.slots, max(known, 2 * used))
            self.slots[used:] = -1
        found = np.zeros(len(nodes), np.int32)
        row, rows = 0, len(offsets) - 1
        while row < rows:
            row = _follow(self.slots, self.bits, self.sums, self.state, offsets, nodes, row, found)
            if row < rows:
                self._renumber(int(offsets[row + 1] - offsets[row]))
        return found

    def pieces(self, prompts: Prompts) -> Iterator[Piece]:
        """Use the prompts, some at a time. Changes the order."""
        for low in range(0, len(prompts.tails), PIECE_ROWS):
            bounds = prompts.offsets[low : low + PIECE_ROWS + 1]
            nodes = prompts.nodes[bounds[0] : bounds[-1]]
            offsets, tails = bounds - bounds[0], prompts.tails[low : low + PIECE_ROWS]
            yield Piece(low, offsets, tails, self.positions(offsets, nodes, prompts.known))

    def _renumber(self, least: int) -> None:
        recency.renumber(self.bits, self.slots, len(self.slots))
        taken = int(self.state[1])
        words = max(SMALLEST // 32, -(-2 * (taken + least) // 64))
        self.bits, self.sums = np.zeros(words, np.uint64), np.zeros(words + 1, np.int32)
        recency.fill(self.bits, self.sums, 0, taken)
        self.state[0] = taken


def lru_curve(prompts: Prompts, *, first: int = 0) -> Table:
    """The table `curve` of prompts in memory: one row at every capacity where a value changes, and for 0.

    first  requests before it warm up and do not count
    """
    counts = np.zeros((prompts.known + 1, 3), np.int64)
    for piece in Order().pieces(prompts):
        warm = max(0, first - piece.first)
        _count(piece.positions, piece.offsets, piece.tails, prompts.block_tokens, warm, counts)
    found = np.flatnonzero(counts[:, 1:].any(axis=1))
    rows = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(counts[found], axis=0)])
    capacity = np.concatenate([[0], found])
    columns = {
        "policy": pa.array(["lru"] * len(capacity)),
        "capacity_blocks": capacity,
        "request_hits": rows[:, 0],
        "block_hits": rows[:, 1],
        "hit_tokens": rows[:, 2],
    }
    return Table("curve", pa.table(columns), DOC)


@kernel
def _follow(
    slots: npt.NDArray[np.int32],
    bits: Words,
    sums: npt.NDArray[np.int32],
    state: Ints,
    offsets: Ints,
    nodes: npt.NDArray[np.int32],
    row: int,
    found: npt.NDArray[np.int32],
) -> int:
    """Use the prompts from `row` on until the slots run out: the row reached. Changes all but the prompts."""
    room = len(bits) * 64
    while row < len(offsets) - 1:
        low, high = offsets[row], offsets[row + 1]
        length = high - low
        if state[0] + length > room:
            return int(row)
        place = low
        position = 0
        while place < high and slots[nodes[place]] >= 0:
            slot = slots[nodes[place]]
            if place > low and slot == slots[nodes[place - 1]] - 1:
                position += 1
            else:
                position = recency.taken_from(bits, sums, state[1], slot)
            found[place] = position
            place += 1
        run = low  # only now, with all positions known, are the old slots freed, run by run
        for end in range(low + 1, place + 1):
            if end == place or slots[nodes[end]] != slots[nodes[end - 1]] - 1:
                recency.clear(bits, sums, slots[nodes[end - 1]], end - run)
                run = end
        recency.fill(bits, sums, state[0], length)
        for back in range(length):
            slots[nodes[low + back]] = state[0] + length - 1 - back
        state[0] += length
        state[1] += high - place
        row += 1
    return int(row)


@kernel
def _count(
    positions: npt.NDArray[np.int32],
    offsets: Ints,
    tails: npt.NDArray[np.int32],
    block_tokens: int,
    first: int,
    counts: Ints,
) -> None:
    """Count requests, blocks and tokens by position from prompt `first` on. Changes counts, int64[…, 3]."""
    for row in range(first, len(tails)):
        low, high = offsets[row], offsets[row + 1]
        for place in range(low, high):
            position = positions[place]
            if position == 0:
                break
            counts[position, 0] += place == low
            counts[position, 1] += 1
            counts[position, 2] += tails[row] if place == high - 1 else block_tokens
