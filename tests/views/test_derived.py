"""What views share of a batch."""

from __future__ import annotations

import numpy as np

from servescope import schema
from servescope.kernels.histogram import log_bin
from servescope.trace import Batch
from servescope.views.derived import token_bins


def test_bins_of_tokens_are_made_once() -> None:
    tokens = np.array([schema.NULL_INT32, -5, 0, 1, 2, 99, 100, 2**31 - 1], np.int32)
    batch = Batch(0, len(tokens), {"input_tokens": tokens})
    bins = token_bins(batch, "input_tokens")
    assert bins.tolist() == [0, 0, 0, *(log_bin(float(n)) for n in tokens[3:])]
    assert token_bins(batch, "input_tokens") is bins
    assert token_bins(batch, "output_tokens").tolist() == [0] * len(tokens)
