"""Random: every resident object is as likely to go; the baseline that knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.kernels.draws import below, generator
from servescope.kernels.jit import borrowing_kernel
from servescope.kernels.members import empty_set, enter, leave

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

PARAMETERS: dict[str, float] = {}


class State(NamedTuple):
    """The resident objects, to draw from.

    counts   int64[4], see `counts`
    sizes    int64[objects], tokens held; -1: not resident
    members  int32[objects], place int32[objects + 1]: residents, see `kernels.members`
    draws    int64[2], see `kernels.draws`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    draws: npt.NDArray[np.int64]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` starts the draws."""
    sizes = np.full(requests.known, -1, np.int64)
    return State(counters(capacity_tokens), sizes, *empty_set(requests.known), generator(seed))


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state.

    Room is made before a newcomer comes in, so it cannot be drawn; an object that grew on a hit can.
    """
    counts, sizes, members, place, draws = state
    hit = sizes[item] >= 0
    if hit:
        counts[USED] += size - sizes[item]
        sizes[item] = size
    elif size > counts[CAPACITY]:
        return False
    incoming = 0 if hit else size
    while counts[USED] + incoming > counts[CAPACITY]:
        victim = members[below(draws, place[-1])]
        leave(members, place, victim)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    if not hit:
        enter(members, place, item)
        sizes[item] = size
        counts[USED] += size
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(hit)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
