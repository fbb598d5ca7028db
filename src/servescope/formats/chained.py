"""Whether block ids are chained: does equal id mean equal whole prefix? Checked on load."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels import hashmap
from servescope.kernels.jit import kernel

DIRECT_FACTOR = 4  # ids below this many times the references are looked up without hashing


@kernel
def _differs(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.bool_], seen: int, now: int) -> bool:
    """Whether the predecessors of two sights of one id differ; sights are indices into `values`."""
    if starts[seen] or starts[now]:
        return bool(starts[seen] != starts[now])
    return bool(values[seen - 1] != values[now - 1])


@kernel
def _direct(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.bool_], first: npt.NDArray[np.int64]
) -> bool:
    """The check with a table from id to its first sight; `first` holds -1 and is modified."""
    for j in range(len(values)):
        seen = first[values[j]]
        if seen < 0:
            first[values[j]] = j
        elif _differs(values, starts, seen, j):
            return False
    return True


@kernel
def _hashed(
    values: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.bool_],
    keys: npt.NDArray[np.uint64],
    first: npt.NDArray[np.int64],
    at: int,
    used: int,
) -> tuple[int, int, bool]:
    """The check with a hash map from id to first sight, from reference `at` on.

    keys, first  the map, modified
    returns      where it stopped (a full map, or the end), entries used, whether all is well so far
    """
    limit = 2 * len(keys) // 3
    for j in range(at, len(values)):
        slot = hashmap.slot_of(keys, first, values[j])
        if first[slot] == hashmap.EMPTY:
            if used == limit:
                return j, used, True
            keys[slot] = values[j]
            first[slot] = j
            used += 1
        elif _differs(values, starts, first[slot], j):
            return j, used, False
    return len(values), used, True


def is_chained(values: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]) -> bool:
    """Whether each block id has the same predecessor wherever it occurs.

    By induction an id then stands for one whole prefix.

    values   uint64[n], block ids of all rows; not modified
    offsets  int64[rows + 1]
    """
    starts = np.zeros(len(values) + 1, np.bool_)
    starts[offsets[:-1]] = True  # the start of an empty row is the next row's start, or past the end
    if not len(values):
        return True
    top = int(values.max())
    if top < DIRECT_FACTOR * len(values):
        return bool(_direct(values, starts, np.full(top + 1, -1, np.int64)))
    keys, first = hashmap.new()
    at, used, good = 0, 0, True
    while good and at < len(values):
        at, used, good = _hashed(values, starts, keys, first, at, used)
        if good and at < len(values):
            keys, first = hashmap.grown(keys, first)
    return good
