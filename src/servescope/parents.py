"""Which rows have a parent in the trace; a parent is another row, named by its `request_id`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError
from servescope.schema import NULL_INT64

if TYPE_CHECKING:
    Ints = npt.NDArray[np.int64]


def follow_ups(parent: Ints, rows: int) -> Ints:
    """Positions of the rows that have a parent: int64[n].

    parent  int64[m], `parent_id` with the null of `schema`, not modified
    rows    requests in the trace

    Raises DataError where a parent is no request of the trace.
    """
    linked = np.flatnonzero(parent != NULL_INT64)
    stated = parent[linked]
    wrong = stated[(stated < 0) | (stated >= rows)]
    if len(wrong):
        raise DataError(
            f"parent_id {int(wrong[0])} is no request of this trace (they run from 0 to {rows - 1:,}). "
            "`servescope check` lists such rows."
        )
    return linked
