"""A set of dense numbers that can be drawn from: enter, leave and pick each take constant time.

The set is two arrays: members int32[n], its numbers in the first `count` places, in no order that
means anything; place int32[n + 1], where a number stands (-1: not in the set), and last the count.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel


def empty_set(known: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """An empty set of numbers below `known`: members, place."""
    place = np.full(known + 1, -1, np.int32)
    place[known] = 0
    return np.zeros(known, np.int32), place


@borrowing_kernel
def enter(members: npt.NDArray[np.int32], place: npt.NDArray[np.int32], number: int) -> None:
    """Put `number`, which is not in it, into the set. Changes both arrays."""
    count = place[-1]
    members[count] = number
    place[number] = count
    place[-1] = count + 1


@borrowing_kernel
def leave(members: npt.NDArray[np.int32], place: npt.NDArray[np.int32], number: int) -> None:
    """Take `number`, which is in it, out of the set: the last one takes its place. Changes both."""
    last = members[place[-1] - 1]
    members[place[number]] = last
    place[last] = place[number]
    place[number] = -1
    place[-1] -= 1
