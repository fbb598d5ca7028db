"""What views share of a batch."""

from __future__ import annotations

import numpy as np

from servescope import schema
from servescope.kernels.histogram import log_bin, whole_ratio_bin
from servescope.trace import Batch
from servescope.views.derived import durations, hit_bins, latency_bins, token_bins


def test_bins_of_tokens_are_made_once() -> None:
    tokens = np.array([schema.NULL_INT32, -5, 0, 1, 2, 99, 100, 2**31 - 1], np.int32)
    batch = Batch(0, len(tokens), {"input_tokens": tokens})
    bins = token_bins(batch, "input_tokens")
    assert bins.tolist() == [0, 0, 0, *(log_bin(float(n)) for n in tokens[3:])]
    assert token_bins(batch, "input_tokens") is bins
    assert token_bins(batch, "output_tokens").tolist() == [0] * len(tokens)


def test_latencies_are_made_once() -> None:
    completed = [schema.NULL_INT64, 5_000_000, 1_500_000, 1_000_000, 5_000_000]
    columns = {
        "arrival_us": np.full(5, 1_000_000, np.int64),
        "completed_us": np.array(completed, np.int64),
        "ttft_s": np.array([0.5, 1.5, 0.5, 0.5, np.nan]),
    }
    batch = Batch(0, 5, columns)
    np.testing.assert_array_equal(durations(batch), [np.nan, 4.0, 0.5, 0.0, 4.0])
    ttft, duration, decode = latency_bins(batch)
    assert ttft.tolist() == [log_bin(x) for x in (0.5, 1.5, 0.5, 0.5, 0.0)]
    assert duration.tolist() == [log_bin(x) for x in (0.0, 4.0, 0.5, 0.0, 4.0)]
    assert decode.tolist() == [log_bin(x) for x in (0.0, 2.5, 0.0, 0.0, 0.0)]
    assert latency_bins(batch) is latency_bins(batch) and durations(batch) is durations(batch)
    alone = Batch(0, 5, {"arrival_us": columns["arrival_us"]})
    assert np.isnan(durations(alone)).all() and not latency_bins(alone).any()


def test_hits_are_made_once() -> None:
    null = schema.NULL_INT32
    it = np.array([null, 0, 3, 3, 3, 3, 2**31 - 1], np.int32)
    ct = np.array([1, 1, null, -1, 1, 4, 2**31 - 2], np.int32)
    batch = Batch(0, 7, {"input_tokens": it, "cached_tokens": ct})
    assert hit_bins(batch).tolist() == [-1, -1, -1, 0, 334, 1001, 1000]
    assert [whole_ratio_bin(a, b) for a, b in ((-1, 3), (1, 3), (4, 3))] == [0, 334, 1001]
    assert hit_bins(batch) is hit_bins(batch)
