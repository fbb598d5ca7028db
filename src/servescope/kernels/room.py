"""Room by code for arrays whose keys are not all known yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def grown(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """The array with room for at least so many rows: itself, or a copy of twice the length, zeros behind."""
    if rows <= len(array):
        return array
    return cut(array, max(rows, 2 * len(array)))


def cut(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Exactly the first rows: a view, or a copy with zeros behind where the array is shorter."""
    if rows <= len(array):
        return array[:rows]
    more = np.zeros((rows, *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more
