"""LRU's hits at every capacity from one pass over reuse distances, for objects that grow.

Let an object's *need* at an access be its own last size plus the last sizes of all objects accessed since its
last access. LRU evicts from the old end until the rest fits, so at every moment it holds a run of objects
from the youngest on, and an object leaves exactly when the sizes from the youngest down to it pass the
capacity. That sum only grows while the object waits, if no object shrinks from one access to its next; then
the last sum, the need, is the largest, and the access hits if and only if need <= capacity. Where objects
shrink, the largest sum of that time takes its place (`shrinking_needs`). The argument holds where every
object is admitted: at capacities of at least the largest size in the trace. Below, a refused object leaves
the others alone and a hit that outgrows the cache empties it, so there a replay decides. Source: R. L.
Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970 (stack
distances, for equal sizes).

Slow twin: the replay of `policies/lru.py` at each capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.shrinking_needs import peak_needs
from servescope.kernels.fenwick import add, total_before
from servescope.kernels.jit import kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

    Ints = npt.NDArray[np.int64]

FIRST_ACCESS = -1


class Curve(NamedTuple):
    """Hits of LRU by capacity: row i holds from its capacity up to that of row i + 1.

    capacity_tokens  int64[rows], rising; the first is the largest object of the trace
    request_hits     int64[rows]
    hit_tokens       int64[rows]
    """

    capacity_tokens: Ints
    request_hits: Ints
    hit_tokens: Ints


def shrinking_accesses(requests: Requests) -> int:
    """Accesses whose object is smaller than at its access before."""
    return int(_shrinking(requests.objects, requests.sizes, requests.known))


def lru_curve(requests: Requests, credits: Ints, *, first: int = 0) -> Curve:
    """The exact curve from the largest object on.

    credits  int64[n], tokens that a hit of the request saves
    first    requests before it are not counted
    """
    if not len(requests.objects):
        return Curve(*(np.zeros(0, np.int64) for _ in range(3)))
    of = peak_needs if shrinking_accesses(requests) else needs
    needed = of(requests.objects, requests.sizes, requests.known)
    largest = int(requests.sizes.max())
    counted = np.flatnonzero(needed[first:] != FIRST_ACCESS) + first
    places = np.maximum(needed[counted], largest)
    order = np.argsort(places, kind="stable")
    places, saved = places[order], np.cumsum(credits[counted][order])
    last = np.flatnonzero(np.append(np.diff(places) > 0, True)) if len(places) else np.zeros(0, np.int64)
    capacities, hits, tokens = places[last], last + 1, saved[last]
    if not len(capacities) or capacities[0] > largest:
        capacities, hits, tokens = (
            np.insert(a, 0, v) for a, v in ((capacities, largest), (hits, 0), (tokens, 0))
        )
    return Curve(capacities.astype(np.int64), hits.astype(np.int64), tokens.astype(np.int64))


@kernel
def _shrinking(objects: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], known: int) -> int:
    held = np.zeros(known, np.int64)
    found = 0
    for number in range(len(objects)):
        item = objects[number]
        found += sizes[number] < held[item]
        held[item] = sizes[number]
    return found


@kernel
def needs(objects: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], known: int) -> npt.NDArray[np.int64]:
    """int64[n]: tokens from the youngest object down to this one, just before the access; -1: first access.

    Each object stands in a slot in order of its last access; the tree holds sizes by slot. There are twice
    as many slots as objects, and when they run out the objects move down to the first ones.
    """
    slots = 2 * known + 2
    tree = np.zeros(slots + 1, np.int64)
    owner = np.full(slots, -1, np.int32)  # object in a slot, -1: none any more
    place = np.full(known, -1, np.int64)
    held = np.zeros(known, np.int64)
    found = np.empty(len(objects), np.int64)
    used, total = 0, 0
    for number in range(len(objects)):
        item = objects[number]
        if used == slots:
            used = _close_up(tree, owner, place, held)
        slot = place[item]
        if slot < 0:
            found[number] = -1
        else:
            found[number] = total - total_before(tree, slot)
            add(tree, slot, -held[item])
            owner[slot] = -1
            total -= held[item]
        held[item], place[item], owner[used] = sizes[number], used, item
        add(tree, used, sizes[number])
        total += sizes[number]
        used += 1
    return found


@kernel
def _close_up(
    tree: npt.NDArray[np.int64],
    owner: npt.NDArray[np.int32],
    place: npt.NDArray[np.int64],
    held: npt.NDArray[np.int64],
) -> int:
    """Move all objects to the first slots in their order; how many there are. Changes all but `held`."""
    used = 0
    for slot in range(len(owner)):
        item = owner[slot]
        if item >= 0:
            owner[slot] = -1
            owner[used], place[item] = item, used
            used += 1
    tree[:] = 0
    for slot in range(used):
        tree[slot + 1] = held[owner[slot]]
    for at in range(1, len(tree)):
        up = at + (at & -at)
        if up < len(tree):
            tree[up] += tree[at]
    return used
