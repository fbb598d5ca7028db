"""LRU over prefix blocks at every capacity, exactly, in one pass.

A request uses the blocks of its prompt from the last to the first, so blocks stand in order of last use,
deeper ones behind, and a cache of C blocks holds the first C of them: also where a prompt is longer than
the cache and keeps its first blocks. A block is found by every cache that is at least as large as its
position (Mattson et al., 1970), and with it all blocks before it in the prompt, which stand further ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels import recency
from servescope.kernels.jit import kernel
from servescope.kernels.trie import longer
from servescope.result import Table

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts
    from servescope.kernels.recency import Words

Ints = npt.NDArray[np.int64]
SMALLEST = 1 << 12
DOC = (
    "What an LRU cache of prefix blocks would have found, at every capacity where a value changes: requests "
    "with a hit, blocks found from the start of their prompt, and their tokens (partial last blocks with the "
    "tokens they hold). Exact."
)


@dataclass
class Curve:
    """Counts by position of the block, and where every node stands. Grown by `add`.

    slots       int32[nodes or more], time slot of the last use, -1: none
    bits, sums  see `kernels.recency`
    state       int64[2]: the next free slot, slots taken (the distinct nodes so far)
    counts      int64[nodes + 1 or more, 3]: requests, blocks, tokens found at exactly this position
    totals      int64[3]: requests, blocks, tokens in all
    """

    slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.full(SMALLEST, -1, np.int32))
    bits: Words = field(default_factory=lambda: np.zeros(SMALLEST // 32, np.uint64))
    sums: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(SMALLEST // 32 + 1, np.int32))
    state: Ints = field(default_factory=lambda: np.zeros(2, np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros((SMALLEST + 1, 3), np.int64))
    totals: Ints = field(default_factory=lambda: np.zeros(3, np.int64))

    def add(
        self,
        offsets: Ints,
        nodes: npt.NDArray[np.int32],
        tails: npt.NDArray[np.int32],
        *,
        known: int,
        block_tokens: int,
        counted: int = 0,
    ) -> None:
        """Append prompts. Changes the curve.

        offsets, nodes, tails  as in `Prompts`, of these prompts alone
        known                  nodes of the tree so far
        counted                the first of these prompts that counts; those before warm up
        """
        if known > len(self.slots):
            room = max(known, 2 * len(self.slots))
            used = len(self.slots)
            self.slots = longer(self.slots, room)
            self.slots[used:] = -1
            wider = np.zeros((room + 1, 3), np.int64)
            wider[: len(self.counts)] = self.counts
            self.counts = wider
        row = 0
        while row < len(tails):
            row = _follow(
                self.slots, self.bits, self.sums, self.state, self.counts, self.totals,
                offsets, nodes, tails, block_tokens, row, counted,
            )  # fmt: skip
            if row < len(tails):
                self._renumber(int(offsets[row + 1] - offsets[row]))

    def _renumber(self, least: int) -> None:
        recency.renumber(self.bits, self.slots, len(self.slots))
        taken = int(self.state[1])
        words = max(SMALLEST // 32, -(-2 * (taken + least) // 64))
        self.bits, self.sums = np.zeros(words, np.uint64), np.zeros(words + 1, np.int32)
        recency.fill(self.bits, self.sums, 0, taken)
        self.state[0] = taken

    def table(self) -> Table:
        """The table `curve`: one row at every capacity where a value changes, and one for capacity 0."""
        found = np.flatnonzero(self.counts[:, 1:].any(axis=1))
        rows = np.cumsum(self.counts[found], axis=0)
        rows = np.concatenate([np.zeros((1, 3), np.int64), rows])
        capacity = np.concatenate([[0], found])
        columns = {
            "policy": pa.array(["lru"] * len(capacity)),
            "capacity_blocks": capacity,
            "request_hits": rows[:, 0],
            "block_hits": rows[:, 1],
            "hit_tokens": rows[:, 2],
        }
        return Table("curve", pa.table(columns), DOC)


def lru_curve(prompts: Prompts, *, first: int = 0) -> Curve:
    """The curve of prompts that are in memory; requests before `first` warm up and do not count."""
    curve = Curve()
    curve.add(
        prompts.offsets, prompts.nodes, prompts.tails,
        known=prompts.known, block_tokens=prompts.block_tokens, counted=first,
    )  # fmt: skip
    return curve


@kernel
def _follow(
    slots: npt.NDArray[np.int32],
    bits: Words,
    sums: npt.NDArray[np.int32],
    state: Ints,
    counts: Ints,
    totals: Ints,
    offsets: Ints,
    nodes: npt.NDArray[np.int32],
    tails: npt.NDArray[np.int32],
    block_tokens: int,
    row: int,
    counted: int,
) -> int:
    """Use the prompts from `row` on until the slots run out: the row reached. See `Curve`."""
    room = len(bits) * 64
    while row < len(tails):
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
            if row >= counted:
                counts[position, 0] += place == low
                counts[position, 1] += 1
                counts[position, 2] += tails[row] if place == high - 1 else block_tokens
            place += 1
        run = low  # only now, with all positions known, are the old slots freed, run by run
        for end in range(low + 1, place + 1):
            if end == place or slots[nodes[end]] != slots[nodes[end - 1]] - 1:
                recency.clear(bits, sums, slots[nodes[end - 1]], end - run)
                run = end
        if row >= counted:
            totals[0] += 1
            totals[1] += length
            totals[2] += 0 if length == 0 else (length - 1) * block_tokens + tails[row]
        recency.fill(bits, sums, state[0], length)
        for back in range(length):
            slots[nodes[low + back]] = state[0] + length - 1 - back
        state[0] += length
        state[1] += high - place
        row += 1
    return int(row)
