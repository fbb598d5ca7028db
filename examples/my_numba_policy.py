"""Somebody's own cache policy, compiled: `servescope check-policy examples/my_numba_policy.py:largest_first`.

The three hooks work on `state`, the tuple of arrays that the named function makes. They run as fast as
the policies that ship with servescope; a plain class (`my_policy.py`) is easier to write.
"""

from __future__ import annotations

import numba
import numpy as np

Arrays = tuple[np.ndarray, np.ndarray]


def largest_first(objects: int, patience: int = 8) -> Arrays:
    """State of a policy that evicts the largest of the `patience` objects inserted first.

    queue   int64[objects + 1]: residents, the one inserted first in front; the last entry counts them
    sizes   int64[objects + 1]: tokens of each object; the last entry is `patience`
    """
    queue, sizes = np.zeros(objects + 1, np.int64), np.zeros(objects + 1, np.int64)
    sizes[-1] = max(patience, 1)
    return queue, sizes


@numba.njit
def on_hit(state: Arrays, object: int, size_tokens: int, time_us: int) -> None:
    """The object was resident and is accessed again."""
    state[1][object] = size_tokens


@numba.njit
def on_insert(state: Arrays, object: int, size_tokens: int, time_us: int) -> None:
    """The object was not resident and is now."""
    queue, sizes = state
    queue[queue[-1]] = object
    queue[-1] += 1
    sizes[object] = size_tokens


@numba.njit
def victim(state: Arrays) -> int:
    """Who leaves; called until there is room."""
    queue, sizes = state
    chosen = 0
    for place in range(1, min(queue[-1], sizes[-1])):
        if sizes[queue[place]] > sizes[queue[chosen]]:
            chosen = place
    leaving = queue[chosen]
    for place in range(chosen, queue[-1] - 1):
        queue[place] = queue[place + 1]
    queue[-1] -= 1
    return leaving
