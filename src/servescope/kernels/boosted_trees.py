"""Boosted regression trees as flat arrays, evaluated for many rows at once without a library.

The leaves of a tree are numbered from left to right. A row begins with all of them possible, one bit
each; every node whose test sends it right strikes out the leaves on the left; the first one left is the
leaf it ends in (QuickScorer: Lucchese et al., SIGIR 2015). There is no branch and no walk, so the loop
over rows runs in vector instructions: five times as fast as walking the trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel

MOST_LEAVES = 32
ALL = np.uint32(0xFFFFFFFF)
# place of the lowest set bit, by the top five bits of bit x DE_BRUIJN (Leiserson, Prokop, Randall, 1998)
DE_BRUIJN = np.uint32(0x077CB531)
LOWEST = np.array(
    [0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8,
     31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6, 11, 5, 10, 9], np.int64
)  # fmt: skip


class Trees(NamedTuple):
    """Room for a number of trees of at most MOST_LEAVES leaves; unused nodes and leaves are never reached.

    nodes      int32[trees], inner nodes of each tree
    feature    int32[trees, MOST_LEAVES - 1], what a node tests
    threshold  float32[same]: a row goes left where its feature <= threshold
    kept       uint32[same]: leaves that stay possible when a row goes right
    values     float64[trees, MOST_LEAVES]: what a leaf adds
    """

    nodes: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float32]
    kept: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]


def empty_trees(trees: int) -> Trees:
    """Trees that all add 0."""
    shape = (trees, MOST_LEAVES - 1)
    return Trees(
        np.zeros(trees, np.int32),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.uint32),
        np.zeros((trees, MOST_LEAVES)),
    )


def fill_trees(trees: Trees, model: str) -> None:
    """Take over the trees of a model in LightGBM's text form (its `model_to_string`). Changes `trees`.

    Raises ValueError where the model has more trees or leaves than there is room for, or splits by
    category or by missing values.
    """
    blocks = model.split("\nTree=")[1:]
    if len(blocks) > len(trees.nodes):
        raise ValueError(f"the model has {len(blocks)} trees, and there is room for {len(trees.nodes)}")
    trees.nodes[:] = 0
    trees.values[:] = 0
    for number, block in enumerate(blocks):
        _fill_tree(trees, number, dict(line.split("=", 1) for line in block.splitlines() if "=" in line))


def _fill_tree(trees: Trees, number: int, fields: dict[str, str]) -> None:
    values = np.array(fields["leaf_value"].split(), np.float64)
    if len(values) > MOST_LEAVES or fields.get("num_cat", "0") != "0":
        raise ValueError(f"the model splits by category or has more than {MOST_LEAVES} leaves")
    if len(values) == 1:
        trees.values[number, 0] = values[0]
        return
    kinds = np.array(fields["decision_type"].split(), np.int64)
    if (kinds & ~2).any():  # bit 1 is the default side, which only matters for missing values
        raise ValueError("the model splits by missing values")
    nodes = len(kinds)
    trees.nodes[number] = nodes
    trees.feature[number, :nodes] = np.array(fields["split_feature"].split(), np.int32)
    trees.threshold[number, :nodes] = _rounded_down(np.array(fields["threshold"].split(), np.float64))
    order, kept = _from_left(fields["left_child"], fields["right_child"])
    trees.kept[number, :nodes] = kept
    trees.values[number, : len(values)] = values[order]


def _rounded_down(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The greatest float32 not above each: a float32 is on the same side of both."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


def _from_left(left: str, right: str) -> tuple[list[int], list[int]]:
    """Leaves of a tree from left to right, and by node the leaves that going right keeps."""
    children = [(int(one), int(other)) for one, other in zip(left.split(), right.split(), strict=True)]
    order: list[int] = []
    kept = [0] * len(children)
    waiting: list[tuple[int, int]] = [(0, -1)]  # (node or ~leaf, -1), or (node, leaves before its left side)
    while waiting:
        node, before = waiting.pop()
        if node < 0:
            order.append(~node)
        elif before < 0:
            one, other = children[node]
            waiting += [(other, -1), (node, len(order)), (one, -1)]
        else:  # all leaves on its left are numbered now
            struck = (1 << len(order)) - (1 << before)
            kept[node] = int(ALL) & ~struck
    return order, kept


@borrowing_kernel
def predict(
    trees: Trees,
    rows: npt.NDArray[np.float32],
    number: int,
    possible: npt.NDArray[np.uint32],
    sums: npt.NDArray[np.float64],
) -> None:
    """Sum up all trees for `number` rows, adding in the order of the trees. Changes possible and sums.

    rows      float32[features, n], a column for each row, no NaN; not modified
    possible  uint32[n], room to work in
    sums      float64[n], gets the sums in its first `number` places
    """
    for row in range(number):
        sums[row] = 0.0
    for tree in range(len(trees.nodes)):
        for row in range(number):
            possible[row] = ALL
        for node in range(trees.nodes[tree]):
            values = rows[trees.feature[tree, node]]
            threshold, kept = trees.threshold[tree, node], trees.kept[tree, node]
            for row in range(number):
                possible[row] &= ALL if values[row] <= threshold else kept
        for row in range(number):
            lowest = possible[row] & (~possible[row] + np.uint32(1))
            leaf = LOWEST[np.uint32(lowest * DE_BRUIJN) >> np.uint32(27)]
            sums[row] += trees.values[tree, leaf]
