"""W-TinyLFU: a small LRU window for newcomers; who leaves it must be more frequent than whom it ousts.

Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy", ACM TOS 13(4), 2017:
window LRU, main part segmented LRU of a probation and a protected list, a count-min sketch with a
doorkeeper that ages after ten sightings for every object the cache can hold. All parts are measured
in tokens. Objects pushed out of the window join probation as candidates, the first pushed first; while
the cache overflows, the candidate and the oldest of probation are compared and the less frequent one
goes (the candidate if equal). An object that outgrows the window on a hit is pushed out likewise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.errors import UsageError
from servescope.kernels import linked_list
from servescope.kernels.count_sketch import empty_sketch, estimate, see
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

# shares of tokens: of the whole that is window, of the main part that is protected (section 4.2 there)
PARAMETERS: dict[str, float] = {"window": 0.01, "protected": 0.8}
COUNTERS_PER_OBJECT = 4  # in each of the four rows, for every object that the cache can hold
SAMPLE_PER_OBJECT = 10  # sightings before the sketch ages
WINDOW, PROBATION, PROTECTED = range(3)
NONE = -1


class State(NamedTuple):
    """Three lists in order of access, and the sketch.

    counts         int64[4], see `counts`
    sizes          int64[objects], tokens held; -1: not resident
    after, before  int32[objects + 3], see `kernels.linked_list`; the roots are those of the three lists
    part           int8[objects], list of a resident
    held           int64[3], tokens in each list
    most           int64[3], tokens that each list may hold (probation: no limit of its own)
    rows, seen     see `kernels.count_sketch`
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    part: npt.NDArray[np.int8]
    held: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint8]
    seen: npt.NDArray[np.int64]


def new(
    requests: Requests,
    capacity_tokens: int,
    seed: int,
    *,
    window: float = PARAMETERS["window"],
    protected: float = PARAMETERS["protected"],
) -> State:
    """An empty cache for these requests; `seed` is not used. Raises UsageError for bad shares."""
    for name, share in (("window", window), ("protected", protected)):
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share:g}; it is a share of the tokens, 0 to 1.")
    known = requests.known
    mean = max(float(requests.sizes.mean()) if known else 1.0, 1.0)
    objects = max(min(known, int(capacity_tokens / mean) + 1), 16)
    window_tokens = int(capacity_tokens * window)
    most = [window_tokens, capacity_tokens, int((capacity_tokens - window_tokens) * protected)]
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        *linked_list.rings(known, 3),
        np.zeros(known, np.int8),
        np.zeros(3, np.int64),
        np.array(most, np.int64),
        *empty_sketch(COUNTERS_PER_OBJECT * objects, SAMPLE_PER_OBJECT * objects),
    )


@borrowing_kernel
def step(state: State, item: int, size: int) -> bool:
    """One access; whether it hits. Changes the state."""
    counts, sizes, after, before, part, held, most, rows, seen = state
    see(rows, seen, item)
    hit = sizes[item] >= 0
    if hit:
        counts[USED] += size - sizes[item]
        held[part[item]] -= sizes[item]
        linked_list.remove(after, before, item)
        if part[item] == PROBATION:
            part[item] = PROTECTED
    elif size > counts[CAPACITY]:
        return False
    else:
        counts[USED] += size
        part[item] = WINDOW
    sizes[item] = size
    held[part[item]] += size
    linked_list.append(after, before, len(sizes) + part[item], item)
    _push_down(sizes, after, before, part, held, most, PROTECTED)
    candidate = _push_down(sizes, after, before, part, held, most, WINDOW)
    while counts[USED] > counts[CAPACITY]:
        victim = _oldest(after, len(sizes))
        if candidate != NONE and estimate(rows, candidate) <= estimate(rows, victim):
            victim = candidate  # as it does when it is the oldest of probation itself
            candidate = after[candidate] if after[candidate] < len(sizes) else NONE
        linked_list.remove(after, before, victim)
        counts[USED] -= sizes[victim]
        held[part[victim]] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return bool(hit)


@borrowing_kernel
def _push_down(
    sizes: npt.NDArray[np.int64],
    after: npt.NDArray[np.int32],
    before: npt.NDArray[np.int32],
    part: npt.NDArray[np.int8],
    held: npt.NDArray[np.int64],
    most: npt.NDArray[np.int64],
    crowded: int,
) -> int:
    """Move the oldest of a list that holds too much into probation: the first moved, NONE if none was."""
    first = NONE
    while held[crowded] > most[crowded]:
        moved = after[len(sizes) + crowded]
        linked_list.remove(after, before, moved)
        linked_list.append(after, before, len(sizes) + PROBATION, moved)
        held[crowded] -= sizes[moved]
        held[PROBATION] += sizes[moved]
        part[moved] = PROBATION
        if first == NONE:
            first = moved
    return first


@borrowing_kernel
def _oldest(after: npt.NDArray[np.int32], known: int) -> int:
    """Who goes without a contest: the oldest of probation, else of protected, else of the window."""
    if not linked_list.is_empty(after, known + PROBATION):
        return int(after[known + PROBATION])
    if not linked_list.is_empty(after, known + PROTECTED):
        return int(after[known + PROTECTED])
    return int(after[known + WINDOW])


@borrowing_kernel
def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for number in range(first, last):
        hits[number] = step(state, requests.objects[number], requests.sizes[number])
