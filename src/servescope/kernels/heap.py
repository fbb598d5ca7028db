"""An indexed heap of dense items: the smallest (key, order) first, and any item's key may change.

Four children a node: half as many levels as with two, and the children of a node lie side by side.
Slow twin: sorting, in `tests/kernels/test_heap.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel

CHILDREN = 4


class Heap(NamedTuple):
    """A heap of up to `capacity` items.

    length  int64[1], items in it
    items   int32[capacity], by node
    keys    float64[capacity], by node; never NaN
    orders  int64[capacity], by node; decides between equal keys
    nodes   int32[capacity], node of an item; -1: not in the heap
    """

    length: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    keys: npt.NDArray[np.float64]
    orders: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int32]


def new(capacity: int) -> Heap:
    """An empty heap for items 0 … capacity - 1."""
    return Heap(
        np.zeros(1, np.int64),
        np.zeros(capacity, np.int32),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.full(capacity, -1, np.int32),
    )


@borrowing_kernel
def put(heap: Heap, item: np.int64, key: float, order: int) -> None:
    """Insert an item, or give one that is there another key and order. Changes the heap."""
    node = np.int64(heap.nodes[item])
    if node < 0:
        node = np.int64(heap.length[0])
        heap.length[0] += 1
    elif _before(heap, node, key, order):
        _sink(heap, node, item, key, order)
        return
    _rise(heap, node, item, key, order)


@borrowing_kernel
def pop(heap: Heap) -> tuple[np.int64, np.float64]:
    """Remove the first item: it and its key. The heap, which must not be empty, is changed."""
    item, key = np.int64(heap.items[0]), heap.keys[0]
    heap.nodes[item] = -1
    heap.length[0] -= 1
    last = heap.length[0]
    if last > 0:
        _sink(heap, np.int64(0), np.int64(heap.items[last]), heap.keys[last], heap.orders[last])
    return item, key


@borrowing_kernel
def _before(heap: Heap, node: np.int64, key: float, order: int) -> bool:
    """Whether a node comes before a key and order."""
    return bool(heap.keys[node] < key or (heap.keys[node] == key and heap.orders[node] < order))


@borrowing_kernel
def _place(heap: Heap, node: np.int64, item: np.int64, key: float, order: int) -> None:
    """Write a node. Changes the heap."""
    heap.items[node], heap.keys[node], heap.orders[node] = item, key, order
    heap.nodes[item] = node


@borrowing_kernel
def _rise(heap: Heap, node: np.int64, item: np.int64, key: float, order: int) -> None:
    """Place an item at a node or above it. Changes the heap."""
    while node > 0:
        parent = (node - 1) // CHILDREN
        if _before(heap, parent, key, order):
            break
        _place(heap, node, np.int64(heap.items[parent]), heap.keys[parent], heap.orders[parent])
        node = parent
    _place(heap, node, item, key, order)


@borrowing_kernel
def _sink(heap: Heap, node: np.int64, item: np.int64, key: float, order: int) -> None:
    """Place an item at a node or below it. Changes the heap."""
    while True:
        first = CHILDREN * node + 1
        if first >= heap.length[0]:
            break
        least = first
        for other in range(first + 1, min(first + CHILDREN, heap.length[0])):
            child = np.int64(other)
            if _before(heap, child, heap.keys[least], heap.orders[least]):
                least = child
        if not _before(heap, least, key, order):
            break
        _place(heap, node, np.int64(heap.items[least]), heap.keys[least], heap.orders[least])
        node = least
    _place(heap, node, item, key, order)
