"""Which groups (sessions, request types) went along a node of a prefix tree before.

Most nodes belong to one group, which then needs one number a node. Only where a second group
comes along do pairs of (group, node) go into a set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.kernels.trie import SMALLEST, Trie, longer, slot_of

Ints = npt.NDArray[np.int64]
NOBODY, SEVERAL = 0, -1  # other values: the group + 1


@kernel
def _enter(
    slots: npt.NDArray[np.int32],
    blocks: npt.NDArray[np.uint64],
    parents: npt.NDArray[np.int64],
    used: int,
    group: int,
    node: int,
) -> int:
    """Enter (group, node) into the set if it is not there: members afterwards."""
    slot = slot_of(slots, blocks, parents, group, np.uint64(node))
    if slots[slot] < 0:
        slots[slot] = used
        blocks[used] = np.uint64(node)
        parents[used] = group
        used += 1
    return used


@kernel
def _visit(
    owner: npt.NDArray[np.int64],
    slots: npt.NDArray[np.int32],
    blocks: npt.NDArray[np.uint64],
    parents: npt.NDArray[np.int64],
    used: int,
    groups: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    row: int,
    found: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """Send paths through from `row` on until the set may be full: row reached, members used.

    owner                   int64[nodes], NOBODY, SEVERAL or group + 1, modified
    slots, blocks, parents  the set of (group, node), modified
    groups, offsets, nodes  see `Owners.visit`
    found                   int64[rows], modified
    """
    while row < len(groups):
        if used + 2 * (offsets[row + 1] - offsets[row]) > len(blocks):
            return row, used
        group = groups[row]
        run = True
        for j in range(offsets[row], offsets[row + 1] if group >= 0 else offsets[row]):
            node = nodes[j]
            own = owner[node]
            if own == NOBODY:
                owner[node] = group + 1
                run = False
            elif own != group + 1:
                before = _enter(slots, blocks, parents, used, own - 1, node) if own > 0 else used
                owner[node] = SEVERAL
                used = _enter(slots, blocks, parents, before, group, node)
                run = run and used == before
            found[row] += run
        row += 1
    return row, used


@dataclass
class Owners:
    """Groups that went along each node of one tree.

    owner  int64[at least the nodes of the tree], NOBODY, SEVERAL or group + 1
    pairs  the set of (group, node) of nodes with several groups
    """

    owner: Ints = field(default_factory=lambda: np.zeros(SMALLEST, np.int64))
    pairs: Trie = field(default_factory=lambda: Trie(flat=True))

    def visit(self, tree: Trie, groups: Ints, offsets: Ints, nodes: Ints) -> Ints:
        """Send paths through the tree in order: int64[rows], leading nodes that the group had been at.

        tree     into which the paths have just been inserted
        groups   int64[rows], negative for a path of no group (it finds 0 and leaves no trace)
        offsets  int64[rows + 1]
        nodes    int64[n], nodes of the paths from their start, as `Trie.insert` gives them

        Changes the owners. Equals the leading runs in a tree of each group alone.
        """
        if len(self.owner) < tree.used:
            self.owner = longer(self.owner, len(tree.blocks))
        found = np.zeros(len(groups), np.int64)
        row, pairs = 0, self.pairs
        while row < len(groups):
            row, pairs.used = _visit(
                self.owner, pairs.slots, pairs.blocks, pairs.parents, pairs.used,
                groups, offsets, nodes, row, found,
            )  # fmt: skip
            if row < len(groups):
                pairs.grow(pairs.used + 2 * int(offsets[row + 1] - offsets[row]))
        return found
