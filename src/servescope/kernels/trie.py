"""A prefix tree of block ids in flat arrays: what is there of a prompt, from its start?

A node is one (parent node, block id); the parent of a first block is the scope. Nodes are
numbered 0, 1, 2 … as they arise and never removed. A node takes 20 bytes and two slots of 4 bytes
(the table is at most half full): 28 bytes, and up to as much again while arrays double.

Prompts that share a beginning are inserted along consecutive nodes, so a walk first looks at the
next node and asks the table only where a path branches. The same holds for a flat set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Ints = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)
SMALLEST = 1 << 10
MOST_NODES = (1 << 31) - 1  # a slot holds int32
ROOT = -2  # the parent of a first block in scope s (-1, 0, 1, …) is ROOT - s


@kernel
def slot_of(
    slots: npt.NDArray[np.int32],
    blocks: npt.NDArray[np.uint64],
    parents: npt.NDArray[np.int64],
    parent: int,
    block: np.uint64,
) -> np.int64:
    """The slot of node (parent, block), or the free slot where it belongs."""
    mask = np.uint64(len(slots) - 1)
    mixed = (np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15)) ^ block
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    slot = mixed & mask
    while slots[slot] >= 0 and not (blocks[slots[slot]] == block and parents[slots[slot]] == parent):
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@kernel
def _insert(
    slots: npt.NDArray[np.int32],
    blocks: npt.NDArray[np.uint64],
    parents: npt.NDArray[np.int64],
    depths: npt.NDArray[np.int32],
    used: int,
    scopes: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    values: npt.NDArray[np.uint64],
    skip: npt.NDArray[np.int64],
    row: int,
    flat: bool,
    found: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """Insert prompts from `row` on until the next one may not fit: row reached, nodes used.

    slots, blocks, parents, depths  the tree, modified
    scopes, offsets, values, skip   the prompts, see `Trie.insert`, not modified
    flat                            every block is a child of its scope: a set instead of a tree
    found, before, nodes            see `Inserted`, modified
    """
    while row < len(scopes):
        low, high = offsets[row] + skip[row], offsets[row + 1]
        if used + high - low > len(blocks):
            return row, used
        before[row] = used
        hits = 0
        parent = ROOT - scopes[row]
        node = np.int64(-1)
        for j in range(low, high):
            block = values[j]
            node += 1
            if node >= used or parents[node] != parent or blocks[node] != block:
                slot = slot_of(slots, blocks, parents, parent, block)
                node = np.int64(slots[slot])
                if node < 0:
                    node = np.int64(used)
                    slots[slot] = node
                    blocks[node] = block
                    parents[node] = parent
                    depths[node] = 1 if flat or parent < 0 else depths[parent] + 1
                    used += 1
            hits += node < before[row]
            nodes[j] = node
            if not flat:
                parent = node
        found[row] = hits
        row += 1
    return row, used


@kernel
def _refill(
    slots: npt.NDArray[np.int32],
    blocks: npt.NDArray[np.uint64],
    parents: npt.NDArray[np.int64],
    used: int,
) -> None:
    """Enter all nodes into an empty table (modified)."""
    for node in range(used):
        slots[slot_of(slots, blocks, parents, parents[node], blocks[node])] = node


@kernel
def shared_depths(
    parents: npt.NDArray[np.int64],
    depths: npt.NDArray[np.int32],
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Blocks that two paths share from their start: int64[n].

    parents, depths  the tree, not modified
    first, second    int64[n], last nodes of the paths; negative for an empty path
    """
    shared = np.zeros(len(first), np.int64)
    for i in range(len(first)):
        a, b = first[i], second[i]
        while a >= 0 and b >= 0 and a != b:
            if depths[a] >= depths[b]:
                a = parents[a]
            else:
                b = parents[b]
        if a >= 0 and a == b:
            shared[i] = depths[a]
    return shared


class Inserted(NamedTuple):
    """What `Trie.insert` found.

    found   int64[rows], blocks that were there before the prompt: in a tree the leading run (the
            rest of the path is new), in a flat set all of them, wherever they stand
    before  int64[rows], number of nodes before the prompt: a block was there where its node is below
    nodes   int64[n], node of every block
    """

    found: Ints
    before: Ints
    nodes: Ints


@dataclass
class Trie:
    """A growing prefix tree, or with `flat` a growing set of (scope, block id).

    used     number of nodes
    blocks   uint64[…], block id of a node
    parents  int64[…], parent node; ROOT - scope for a first block
    depths   int32[…], blocks from the start of the prompt up to this one, from 1
    """

    flat: bool = False
    used: int = 0
    blocks: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(SMALLEST, np.uint64))
    parents: Ints = field(default_factory=lambda: np.zeros(SMALLEST, np.int64))
    depths: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(SMALLEST, np.int32))
    slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.full(2 * SMALLEST, -1, np.int32))

    def insert(
        self, scopes: Ints, offsets: Ints, values: npt.NDArray[np.uint64], skip: Ints | None = None
    ) -> Inserted:
        """Insert prompts in order; each sees the ones before it, never itself.

        scopes   int64[rows], at least -1; equal scopes share a tree
        offsets  int64[rows + 1]; prompt i is values[offsets[i]:offsets[i + 1]]
        values   uint64[n], block ids
        skip     int64[rows], blocks to leave out at the start (their nodes are -1); None: none

        An id repeated inside one prompt is another node in a tree, the same one in a flat set,
        and counts as found in neither. Changes the tree. Raises OverflowError above 2^31 nodes.

        >>> tree = Trie()
        >>> two = np.array([7, 8, 7, 9], np.uint64)
        >>> tree.insert(np.array([-1, -1]), np.array([0, 2, 4]), two).found.tolist()
        [0, 1]
        """
        found, before = np.zeros((2, len(scopes)), np.int64)
        nodes = np.full(len(values), -1, np.int64)
        skip = np.zeros(len(scopes), np.int64) if skip is None else skip
        row = 0
        while row < len(scopes):
            row, self.used = _insert(
                self.slots, self.blocks, self.parents, self.depths, self.used,
                scopes, offsets, values, skip, row, self.flat, found, before, nodes,
            )  # fmt: skip
            if row < len(scopes):
                self.grow(self.used + int(offsets[row + 1] - offsets[row]))
        return Inserted(found, before, nodes)

    def grow(self, least: int) -> None:
        """Twice the room, or more: at least `least` nodes. Changes the arrays."""
        room = 2 * len(self.blocks)
        while room < least:
            room *= 2
        if least > MOST_NODES:
            raise OverflowError(f"a prefix tree holds at most {MOST_NODES:,} blocks")
        self.blocks = longer(self.blocks, room)
        self.parents = longer(self.parents, room)
        self.depths = longer(self.depths, room)
        self.slots = np.full(2 * room, -1, np.int32)
        _refill(self.slots, self.blocks, self.parents, self.used)


def longer(array: npt.NDArray[Number], length: int) -> npt.NDArray[Number]:
    """A copy of at least this length, with zeros at the end."""
    wider = np.zeros(length, array.dtype)
    wider[: len(array)] = array
    return wider
