"""Belady, aware of sizes: the object with the greatest size x distance to its next access goes.

It knows the future. An object without a next access is not kept, and a newcomer is a candidate
like any other. With equal sizes this is the optimum (Belady, IBM Systems Journal 5(2), 1966, with
the choice not to admit); when sizes differ it can be beaten, and `bound` is what cannot.

The greatest is exact at any number of residents: `kernels.falling` gives what a full scan would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.cache.requests import NEVER
from servescope.errors import UsageError
from servescope.kernels.falling import beats, empty_tree, greatest, put, take
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

PARAMETERS: dict[str, float] = {}
LARGEST_PRODUCT = 1 << 62


class State(NamedTuple):
    """Residents in places of a tree that knows the greatest size x distance.

    counts   int64[4], see `counts`; an object that is not kept for want of a next access, or a
             newcomer that is turned away, is no eviction
    sizes    int64[objects], tokens held; -1: not resident
    places   int32[objects], place of a resident in the tree
    owners   int32[width], object in a place
    free     int32[width + 1], places not used, and last how many they are
    tree     sizes, next accesses, winner, until: see `kernels.falling`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int32]
    owners: npt.NDArray[np.int32]
    free: npt.NDArray[np.int32]
    tree: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` is not used.

    Raises UsageError where size x request number would not fit into 62 bits.
    """
    known, sizes = requests.known, requests.sizes
    largest = int(sizes.max(initial=0))
    if largest * len(sizes) >= LARGEST_PRODUCT:
        raise UsageError(
            f"belady multiplies sizes by distances; {largest:,} tokens x {len(sizes):,} requests is over "
            "2^62. Give fewer requests, or sizes in a coarser unit."
        )
    smallest = max(int(sizes.min(initial=1)), 1)
    zeros = bool((sizes == 0).any())  # objects of no size are without number
    tree = empty_tree(known if zeros else min(known, capacity_tokens // smallest))
    width = len(tree[0])
    free = np.append(np.arange(width - 1, -1, -1), width).astype(np.int32)
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        np.full(known, -1, np.int32),
        np.zeros(width, np.int32),
        free,
        tree,
    )


@borrowing_kernel
def step(state: State, item: int, size: int, number: int, coming: int) -> bool:
    """Access number `number`, next one of this object `coming`; whether it hits. Changes the state.

    The object itself enters the tree last, if it stays: most newcomers do not.
    """
    counts, sizes, places, owners, free, (rates, ends, winner, until) = state
    held = sizes[item]
    stays = coming != NEVER and (held >= 0 or size <= counts[CAPACITY])
    if held < 0 and not stays:
        return False
    used = counts[USED] - max(held, 0) + (size if stays else 0)
    while stays and used > counts[CAPACITY]:
        top = greatest(rates, ends, winner, until, number)
        if top < 0 or owners[top] == item or beats(size, coming, rates[top], ends[top], number):
            stays = False
            used -= size
            counts[EVICTIONS] += held >= 0
        else:
            used -= rates[top]
            sizes[owners[top]] = -1
            take(rates, ends, winner, until, top, number)
            free[free[-1]] = top
            free[-1] += 1
            counts[EVICTIONS] += 1
    if stays:
        if held < 0:
            free[-1] -= 1
            places[item] = free[free[-1]]
            owners[places[item]] = item
        rates[places[item]], ends[places[item]] = size, coming
        put(rates, ends, winner, until, places[item], number)
    elif held >= 0:
        take(rates, ends, winner, until, places[item], number)
        free[free[-1]] = places[item]
        free[-1] += 1
    sizes[item] = size if stays else -1
    counts[USED] = used
    counts[PEAK] = max(counts[PEAK], used)
    return bool(held >= 0)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    objects, sizes, nexts = requests.objects, requests.sizes, requests.nexts
    for number in range(first, last):
        hits[number] = step(state, objects[number], sizes[number], number, nexts[number])
