"""What LRB remembers of accesses, and the samples that its model learns from.

An object is in memory for a window of requests after its last access. A sample is an object in memory
and a request; its label, the time until the object came back, is known later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.lrb_training import DELTAS, FEATURES, HALVES
from servescope.kernels.draws import below
from servescope.kernels.jit import borrowing_kernel, kernel

DRAWS = 4  # tries a request to find an object to sample
NONE = -1
WINDOW, BATCH, ROWS, TRAININGS, LABELS, FORGOTTEN, UNUSED = range(7)  # of a tally, see `lrb.State`

Places = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float32]


class Memory(NamedTuple):
    """What is remembered of accesses.

    previous  int64[n], number of the access of the same object before each, NONE for none
    last      int64[objects], number of the last access, NONE for none
    decayed   float32[objects, HALVES], exponentially decayed counts at the last access
    accesses  int64[objects], since the object was last forgotten
    """

    previous: Longs
    last: Longs
    decayed: Reals
    accesses: Longs


class Samples(NamedTuple):
    """Samples without a label yet, and the batch of labelled ones.

    newest    int32[objects], slot of the newest sample of an object, NONE for none
    older     int32[window], slot of the sample before; slot of a sample is its request modulo window
    features  float32[FEATURES, 2 * batch], a column each
    labels    float32[2 * batch]
    """

    newest: Places
    older: Places
    features: Reals
    labels: Reals


def empty_memory(objects: Places, known: int) -> Memory:
    """A memory before the first request; int32[n] `objects` are those of all requests."""
    return Memory(
        previous_accesses(objects, known),
        np.full(known, NONE, np.int64),
        np.zeros((known, HALVES), np.float32),
        np.zeros(known, np.int64),
    )


def no_samples(known: int, window: int, batch: int) -> Samples:
    """No sample yet, with room for the labels of two batches."""
    return Samples(
        np.full(known, NONE, np.int32),
        np.full(window, NONE, np.int32),
        np.zeros((FEATURES, 2 * batch), np.float32),
        np.zeros(2 * batch, np.float32),
    )


@kernel
def previous_accesses(objects: Places, known: int) -> Longs:
    """int64[n]: number of the access of the same object before each, NONE for none."""
    last = np.full(known, NONE, np.int64)
    previous = np.empty(len(objects), np.int64)
    for number in range(len(objects)):
        previous[number] = last[objects[number]]
        last[objects[number]] = number
    return previous


@borrowing_kernel
def describe(
    memory: Memory, window: int, sizes: Longs, item: int, now: int, matrix: Reals, column: int
) -> None:
    """Write the features of an object in memory as they are after request `now` into `matrix` (modified).

    sizes   int64[n], of the requests
    matrix  float32[FEATURES, any]; the features go to one column

    DELTAS times between accesses, the latest first and beginning with now, twice the window where there
    are no more; tokens at the last access; accesses; counts that decayed by half every window / 2^k requests.
    """
    previous, last, decayed, accesses = memory
    number = last[item]
    matrix[0, column] = now - number
    for place in range(1, DELTAS):
        gap = number - previous[number] if number != NONE and previous[number] != NONE else window
        if gap < window:
            number = previous[number]
        else:
            gap, number = 2 * window, NONE
        matrix[place, column] = gap
    matrix[DELTAS, column] = sizes[last[item]]
    matrix[DELTAS + 1, column] = accesses[item]
    faded = 2.0 ** (-float(now - last[item]) / window)
    for place in range(HALVES):
        matrix[DELTAS + 2 + place, column] = decayed[item, place] * faded
        faded *= faded


@borrowing_kernel
def label(
    memory: Memory, samples: Samples, tally: Longs, sizes: Longs, item: int, now: int, forgotten: bool
) -> None:
    """Label all samples of an object that is accessed or forgotten now. Changes samples and tally."""
    newest, older, features, labels = samples
    window = tally[WINDOW]
    slot = newest[item]
    while slot != NONE:
        # the sample was taken at most `window` requests ago, at the one its slot stands for
        taken = now - 1 - (now - 1 - slot) % window
        distance = 2 * window if forgotten else now - taken
        if tally[ROWS] < len(labels):
            describe(memory, window, sizes, item, taken, features, tally[ROWS])
            labels[tally[ROWS]] = np.log1p(distance)
            tally[ROWS] += 1
        else:
            tally[UNUSED] += 1
        tally[LABELS] += 1
        tally[FORGOTTEN] += forgotten
        slot = older[slot]
    newest[item] = NONE


@borrowing_kernel
def remember(memory: Memory, window: int, item: int, now: int) -> None:
    """Enter an access into the memory (modified)."""
    _, last, decayed, accesses = memory
    gap = now - last[item]
    known = last[item] != NONE and gap < window
    faded = 2.0 ** (-float(min(gap, window)) / window)
    for place in range(HALVES):
        decayed[item, place] = 1 + (decayed[item, place] * faded if known else 0.0)
        faded *= faded
    accesses[item] = accesses[item] + 1 if known else 1
    last[item] = now


@borrowing_kernel
def sample(memory: Memory, samples: Samples, draws: Longs, objects: Places, now: int) -> None:
    """Draw an object in memory, all as likely, and make a sample of it. Changes samples and draws.

    An access of the window is drawn until it is its object's last, which every object in memory has one of.
    """
    window = len(samples.older)
    for _ in range(DRAWS):
        number = now - below(draws, min(window, now + 1))
        item = objects[number]
        if memory.last[item] == number:
            slot = now % window
            samples.older[slot] = samples.newest[item]
            samples.newest[item] = slot
            return
