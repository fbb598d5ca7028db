"""What several views make of the same column of a batch, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.views.sketch import int32

if TYPE_CHECKING:
    from servescope.trace import Batch

Bins = npt.NDArray[np.int16]


@kernel
def _token_bins(tokens: npt.NDArray[np.int32], bins: Bins) -> None:
    """Write the log bin of every count to bins."""
    for i in range(len(tokens)):
        # no branch: with 0 or less, half of which cannot be foretold, the bin of 1 is found and thrown away
        bins[i] = log_bin(float(max(tokens[i], 1))) * (tokens[i] > 0)


def token_bins(batch: Batch, column: str) -> Bins:
    """Log bins of token counts, int16[rows]: 0 for 0, for less and for unknown. Not to be modified.

    Two threads that ask at once both make them.
    """
    found = batch.derived.get(column)
    if found is None:
        found = np.empty(batch.rows, np.int16)
        _token_bins(int32(batch, column), found)
        batch.derived[column] = found
    return found
