"""What a cache of whole sessions is asked for: objects that grow, in the order of the trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

NEVER = np.iinfo(np.int64).max


class Requests(NamedTuple):
    """Accesses in the order of the trace; every policy's `new` and `run` take them as they stand.

    objects     int32[n], dense codes 0, 1, 2 … by first access
    sizes       int64[n], tokens of the object at this access (design 14: `input_tokens`)
    nexts       int64[n], number of the next access of the same object, NEVER for none
    arrival_us  int64[n], never falling
    known       number of distinct objects
    """

    objects: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]
    nexts: npt.NDArray[np.int64]
    arrival_us: npt.NDArray[np.int64]
    known: int


def requests_of(
    objects: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], arrival_us: npt.NDArray[np.int64]
) -> Requests:
    """Requests with their next accesses; `objects` must be dense codes by first access."""
    objects = np.ascontiguousarray(objects, np.int32)
    known = int(objects.max()) + 1 if len(objects) else 0
    return Requests(
        objects,
        np.ascontiguousarray(sizes, np.int64),
        next_accesses(objects, known),
        np.ascontiguousarray(arrival_us, np.int64),
        known,
    )


@kernel
def next_accesses(objects: npt.NDArray[np.int32], known: int) -> npt.NDArray[np.int64]:
    """int64[n]: number of the next access of the same object, NEVER where none follows."""
    coming = np.full(known, NEVER, np.int64)
    nexts = np.empty(len(objects), np.int64)
    for number in range(len(objects) - 1, -1, -1):
        nexts[number] = coming[objects[number]]
        coming[objects[number]] = number
    return nexts
