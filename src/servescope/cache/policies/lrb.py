"""LRB, relaxed Belady: a trained model guesses when residents come back, and one that comes late goes.

Song, Berger, Li, Lloyd, "Learning relaxed Belady for content distribution network caching", NSDI 2020.
As there: an object that was not accessed within the memory window is forgotten, and if it is still
resident it goes first (beyond the boundary anything is as good); else the one of 64 drawn residents
with the greatest predicted time to its next access. Objects in memory, resident or not, are drawn as
samples; a sample's label is the time until its object came back, or twice the window when it was
forgotten first. A full batch of labels trains a new model (`lrb_training`: gradient boosting on
log(1 + time), 44 features); until the first one this is LRU. Time is counted in requests.

The paper's sizes fit traces of hundreds of millions of requests; these follow the trace, so that short
ones train it too (`details` tells how often):

window  WINDOW_TURNS times the requests in which first accesses alone would fill the cache once
        (requests x capacity / sum of each object's greatest size), 256 to a quarter of the requests
batch   a twentieth of the requests, 1,024 to 131,072 labels (the paper's)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.cache.policies.lrb_memory import (
    BATCH,
    FORGOTTEN,
    LABELS,
    ROWS,
    TRAININGS,
    UNUSED,
    WINDOW,
    Longs,
    Memory,
    Places,
    Reals,
    Samples,
    describe,
    empty_memory,
    label,
    no_samples,
    remember,
    sample,
)
from servescope.cache.policies.lrb_training import FEATURES, TREES, require_lightgbm, trained_model
from servescope.errors import UsageError
from servescope.kernels import linked_list
from servescope.kernels.boosted_trees import Trees, empty_trees, fill_trees, predict
from servescope.kernels.draws import below, generator
from servescope.kernels.jit import borrowing_kernel
from servescope.kernels.members import empty_set, enter, leave

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

# window: requests, batch: labels, 0 for what the module says
PARAMETERS: dict[str, float] = {"window": 0, "batch": 0}
CANDIDATES = 64
WINDOW_TURNS = 2
SHORTEST_WINDOW, SMALLEST_BATCH = 256, 1_024
LARGEST_BATCH = 131_072


class Candidates(NamedTuple):
    """Room to compare the drawn residents: a column each.

    items     int32[CANDIDATES]
    rows      float32[FEATURES, CANDIDATES]
    possible  uint32[CANDIDATES], see `kernels.boosted_trees`
    coming    float64[CANDIDATES], predicted log(1 + time to the next access)
    """

    items: Places
    rows: Reals
    possible: npt.NDArray[np.uint32]
    coming: npt.NDArray[np.float64]


class State(NamedTuple):
    """Residents in order of access and to draw from, the memory, the samples and the model.

    counts         int64[4], see `counts`
    sizes          int64[objects], tokens held; -1: not resident
    after, before  int32[objects + 1], see `kernels.linked_list`
    members        int32[objects], place int32[objects + 1]: residents, see `kernels.members`
    draws          int64[2], see `kernels.draws`
    tally          int64[7]: window, batch, rows in the batch, trainings, labels, of them of forgotten
                   objects, labels that found the batch full and were left out
    """

    counts: Longs
    sizes: Longs
    after: Places
    before: Places
    members: Places
    place: Places
    draws: Longs
    tally: Longs
    memory: Memory
    samples: Samples
    candidates: Candidates
    trees: Trees


def new(requests: Requests, capacity_tokens: int, seed: int, *, window: float = 0, batch: float = 0) -> State:
    """An empty cache for these requests; `seed` starts the draws and the training.

    Raises UsageError where LightGBM is missing, or window or batch is negative or too small to train.
    """
    require_lightgbm()
    for name, value in (("window", window), ("batch", batch)):
        if value != 0 and not (value >= 32 and float(value).is_integer()):
            raise UsageError(f"{name} is {value:g}; it is a whole number from 32 on, or 0 for the default.")
    known, number = requests.known, len(requests.objects)
    window = int(window) or default_window(requests, capacity_tokens)
    batch = int(batch) or min(max(number // 20, SMALLEST_BATCH), LARGEST_BATCH)
    return State(
        counters(capacity_tokens),
        np.full(known, -1, np.int64),
        *linked_list.rings(known, 1),
        *empty_set(known),
        generator(seed),
        np.array([window, batch, 0, 0, 0, 0, 0], np.int64),
        empty_memory(requests.objects, known),
        no_samples(known, window, batch),
        Candidates(
            np.zeros(CANDIDATES, np.int32),
            np.zeros((FEATURES, CANDIDATES), np.float32),
            np.zeros(CANDIDATES, np.uint32),
            np.zeros(CANDIDATES),
        ),
        empty_trees(TREES),
    )


def default_window(requests: Requests, capacity_tokens: int) -> int:
    """The memory window in requests: see the module."""
    greatest = np.zeros(requests.known, np.int64)
    np.maximum.at(greatest, requests.objects, requests.sizes)
    number = len(requests.objects)
    turn = number * (min(capacity_tokens / max(int(greatest.sum()), 1), 1.0))
    return max(min(round(WINDOW_TURNS * turn), number // 4), SHORTEST_WINDOW)


def details(state: State) -> dict[str, int | float]:
    """How the policy learned so far: window, batch, trainings, labels."""
    tally = state.tally.tolist()
    return {
        "window_requests": tally[WINDOW],
        "batch_labels": tally[BATCH],
        "trainings": tally[TRAININGS],
        "labels": tally[LABELS],
        "labels_forgotten": tally[FORGOTTEN],
        "labels_unused": tally[UNUSED],
    }


@borrowing_kernel
def _victim(state: State, sizes: Longs, now: int) -> int:
    """Who goes: the oldest before the first training or if forgotten, else the latest to come back.

    Trees give the same number to many; among those the least recently accessed goes.
    """
    window, oldest = state.tally[WINDOW], state.after[len(state.sizes)]
    if state.tally[TRAININGS] == 0 or now - state.memory.last[oldest] >= window:
        return int(oldest)
    residents = state.place[-1]
    number = min(residents, CANDIDATES)
    items, rows, possible, coming = state.candidates
    for place in range(number):
        drawn = place if residents <= CANDIDATES else below(state.draws, residents)
        items[place] = state.members[drawn]
        describe(state.memory, window, sizes, items[place], now, rows, place)
    predict(state.trees, rows, number, possible, coming)
    latest = 0
    for place in range(1, number):
        lead = coming[place] - coming[latest]
        older = state.memory.last[items[place]] < state.memory.last[items[latest]]
        if lead > 0 or (lead == 0 and older):
            latest = place
    return int(items[latest])


@borrowing_kernel
def step(state: State, requests: Requests, number: int) -> bool:
    """Request `number`, all before it done; whether it hits. Changes the state.

    Room is made before a newcomer comes in, so it is no candidate; an object that grew on a hit is.
    """
    counts, sizes, window = state.counts, state.sizes, state.tally[WINDOW]
    memory, samples, tally = state.memory, state.samples, state.tally
    item, size = requests.objects[number], requests.sizes[number]
    for turn in range(2):  # one place that calls `label`, as it is compiled into its callers
        forgotten = turn == 0
        labelled = requests.objects[max(number - window, 0)] if forgotten else item
        if not forgotten or (number >= window and memory.last[labelled] == number - window):
            label(memory, samples, tally, requests.sizes, labelled, number, forgotten)
    remember(memory, window, item, number)
    hit = sizes[item] >= 0
    if hit:
        linked_list.remove(state.after, state.before, item)
        linked_list.append(state.after, state.before, len(sizes), item)
        counts[USED] += size - sizes[item]
        sizes[item] = size
    incoming = 0 if hit or size > counts[CAPACITY] else size
    while counts[USED] + incoming > counts[CAPACITY]:
        victim = _victim(state, requests.sizes, number)
        linked_list.remove(state.after, state.before, victim)
        leave(state.members, state.place, victim)
        counts[USED] -= sizes[victim]
        sizes[victim] = -1
        counts[EVICTIONS] += 1
    if not hit and size <= counts[CAPACITY]:
        linked_list.append(state.after, state.before, len(sizes), item)
        enter(state.members, state.place, item)
        sizes[item] = size
        counts[USED] += size
    counts[PEAK] = max(counts[PEAK], counts[USED])
    sample(memory, samples, state.draws, requests.objects, number)
    return bool(hit)


@borrowing_kernel
def advance(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> int:
    """Access requests `first` up to before `last` or a full batch: the next one. Changes state and hits."""
    while first < last:
        hits[first] = step(state, requests, first)
        first += 1
        if state.tally[ROWS] >= state.tally[BATCH]:
            break
    return first


def run(state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Access requests `first` up to before `last`, training at every full batch. Changes state and hits."""
    tally = state.tally
    while first < last:
        first = advance(state, requests, hits, first, last)
        if tally[ROWS] >= tally[BATCH]:
            _train(state)


def _train(state: State) -> None:
    """Train a model on the batch and start the next one. Changes the state."""
    rows = int(state.tally[ROWS])
    features = np.ascontiguousarray(state.samples.features[:, :rows].T)
    seed = (int(state.draws[0]) + int(state.tally[TRAININGS])) % 2**31
    fill_trees(state.trees, trained_model(features, state.samples.labels[:rows], seed))
    state.tally[ROWS] = 0
    state.tally[TRAININGS] += 1
