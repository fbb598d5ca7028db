"""LHD, least hit density: the object that promises the fewest hits for the room and time it takes goes.

Beckmann, Chen, Cidon, "LHD: improving cache hit rate by maximizing hit density", NSDI 2018. Ages, in
accesses since an object's last, at which objects hit and are evicted are counted by class of object.
From them follows, for every age, hits to come / lifetime to come; an object's hit density is that
number by its size, and the least of some drawn residents is evicted. Kept from the paper: one class for
objects that did not hit yet and others by the sum of an object's last two hit ages (its 4.4), 32
candidates (5.2), counts weighted by 0.9 at every reckoning (5.1). Changed: ages are coarsened to eight
bins an octave instead of a width adapted as the cache runs; the densities are reckoned 100 times over
the trace (at least 1,000 accesses apart, at most the paper's 2^20), so that short traces train it too;
a class of which little is known leans on all classes together by the weight of one event, instead of
objects being kept at random to explore. Before the first reckoning an age is worth 1 / age.
"""

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
CANDIDATES = 32
CLASSES = 16  # 0: no hit yet; else two octaves of the sum of the last two hit ages each
OCTAVE_BINS = 8
BINS = 40 * OCTAVE_BINS  # ages up to 2^40 accesses
KEPT = 0.9  # weight of older counts at every reckoning
RECKONINGS = 100
SHORTEST, LONGEST = 1_000, 1 << 20  # accesses between two reckonings
CLOCK, PERIOD = range(2)
HIT, EVICTED = range(2)


class State(NamedTuple):
    """The residents, to draw from, and what is known of ages.

    counts    int64[4], see `counts`
    sizes     int64[objects], tokens held; -1: not resident
    members   int32[objects], place int32[objects + 1]: residents, see `kernels.members`
    draws     int64[2], see `kernels.draws`
    clock     int64[2], accesses so far, accesses between two reckonings
    used      int64[objects, 2], of a resident: clock at its last access, its last hit age
    kinds     int8[objects], class of a resident
    events    float64[2, CLASSES + 1, BINS], weighted hits and evictions by class and age; the last class is
              room for the sum of all
    density   float64[CLASSES, BINS], hits to come / lifetime to come, per access
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    draws: npt.NDArray[np.int64]
    clock: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    events: npt.NDArray[np.float64]
    density: npt.NDArray[np.float64]


def new(requests: Requests, capacity_tokens: int, seed: int) -> State:
    """An empty cache for these requests; `seed` starts the draws."""
    known = requests.known
    period = min(max(len(requests.objects) // RECKONINGS, SHORTEST), LONGEST)
    youngest = 2.0 ** (np.arange(BINS) / OCTAVE_BINS)
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        *empty_set(known),
        generator(seed),
        np.array([0, period], np.int64),
        np.zeros((known, 2), np.int64),
        np.zeros(known, np.int8),
        np.zeros((2, CLASSES + 1, BINS)),
        np.tile(1 / youngest, (CLASSES, 1)),
    )


@borrowing_kernel
def age_bin(age: int) -> int:
    """Bin of an age of at least 1: its octave and the eighth of it, straight from the bits of a float."""
    bits = int(np.float64(age).view(np.int64))
    return min((bits >> 49) - (1023 << 3), BINS - 1)


@borrowing_kernel
def class_of(span: int) -> int:
    """Class of an object whose last two hit ages add up to `span`, at least 1."""
    return min(1 + age_bin(span) // (2 * OCTAVE_BINS), CLASSES - 1)


@borrowing_kernel
def reckon(events: npt.NDArray[np.float64], density: npt.NDArray[np.float64]) -> None:
    """Work out the densities from the events, oldest age first, and let the events fade. Changes both."""
    pooled = events[:, CLASSES]
    pooled[:] = 0.0
    total = 0.0
    for outcome in range(2):
        for kind in range(CLASSES):
            for place in range(BINS):
                pooled[outcome, place] += events[outcome, kind, place]
                total += events[outcome, kind, place]
    if total == 0:
        return
    for kind in range(CLASSES):
        alive = to_hit = lifetime = 0.0
        for place in range(BINS - 1, -1, -1):
            hit = events[HIT, kind, place] + pooled[HIT, place] / total
            ended = hit + events[EVICTED, kind, place] + pooled[EVICTED, place] / total
            width = 2.0 ** ((place + 1) / OCTAVE_BINS) - 2.0 ** (place / OCTAVE_BINS)
            lifetime += width * (alive + ended / 2)  # those that end in the bin live half of it
            alive += ended
            to_hit += hit
            density[kind, place] = to_hit / lifetime if lifetime > 0 else 0.0
            events[HIT, kind, place] *= KEPT
            events[EVICTED, kind, place] *= KEPT


@borrowing_kernel
def _least_dense(
    sizes: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    place: npt.NDArray[np.int32],
    draws: npt.NDArray[np.int64],
    now: int,
    used: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    density: npt.NDArray[np.float64],
) -> int:
    """Of CANDIDATES drawn residents, or of all where there are no more, the one of least hit density."""
    all_of_them = place[-1] <= CANDIDATES
    victim, least = -1, np.inf
    for number in range(min(place[-1], CANDIDATES)):
        item = members[number if all_of_them else below(draws, place[-1])]
        age = max(now - used[item, 0], 1)
        value = density[kinds[item], age_bin(age)] / max(sizes[item], 1)
        if victim < 0 or value < least:
            victim, least = item, value
    return victim


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state.

    Room is made before a newcomer comes in, so it is no candidate; an object that grew on a hit is.
    """
    counts, sizes, members, place, draws, clock, used, kinds, events, density = state
    clock[CLOCK] += 1
    now = clock[CLOCK]
    if now % clock[PERIOD] == 0:
        reckon(events, density)
    hit = sizes[item] >= 0
    if hit:
        age = now - used[item, 0]
        events[HIT, kinds[item], age_bin(age)] += 1
        kinds[item] = class_of(age + used[item, 1])
        used[item, 0], used[item, 1] = now, age
        counts[USED] += size - sizes[item]
        sizes[item] = size
    elif size > counts[CAPACITY]:
        return False
    incoming = 0 if hit else size
    while counts[USED] + incoming > counts[CAPACITY]:
        victim = _least_dense(sizes, members, place, draws, now, used, kinds, density)
        events[EVICTED, kinds[victim], age_bin(max(now - used[victim, 0], 1))] += 1
        leave(members, place, victim)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    if not hit:
        enter(members, place, item)
        sizes[item], kinds[item] = size, 0
        used[item, 0], used[item, 1] = now, 0
        counts[USED] += size
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(hit)


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
