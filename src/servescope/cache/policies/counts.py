"""Counters that the state of every object policy begins with: int64[4], by these places."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CAPACITY, USED, EVICTIONS, PEAK = range(4)  # tokens, tokens, objects, tokens


def counters(capacity_tokens: int) -> npt.NDArray[np.int64]:
    """Fresh counters of a cache of this capacity."""
    return np.array([capacity_tokens, 0, 0, 0], np.int64)
