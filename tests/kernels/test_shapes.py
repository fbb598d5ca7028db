"""Histograms by key of two numbers of a row, against those of each number alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import runs
from servescope.kernels.histogram import LOG_BINS
from servescope.kernels.shapes import ShapeRuns
from tests.reference import runs as slow

BINS = st.sampled_from([0, 1, 2, 63, 64, 1_500, LOG_BINS - 1])
ROWS = st.lists(st.tuples(st.sampled_from([-1, 0, 1, 127, 128, 2**31 - 1]), BINS, BINS), max_size=60)
Rows = list[tuple[int, int, int]]


def made(rows: Rows, pieces: int = 1) -> ShapeRuns:
    """Rows added in several calls."""
    held = ShapeRuns()
    for piece in np.array_split(np.array(rows, np.int64).reshape(-1, 3), pieces):
        keys, first, second = piece.T
        held.add(keys.astype(np.int32), first.astype(np.int16), second.astype(np.int16))
    return held


@given(ROWS, ROWS, st.integers(1, 4))
def test_both_are_the_runs_of_each_number(rows: Rows, more: Rows, pieces: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "CHUNK", 4)
        patch.setattr(runs, "FAN", 3)
        held = made(rows, pieces)
        held.merge(pickle.loads(pickle.dumps(made(more))))
        counted = [row for row in [*rows, *more] if row[0] >= 0 and row[1] > 0 and row[2] > 0]
        for at in (0, 1):
            wanted = slow.run([(row[0], row[1 + at]) for row in counted])
            assert held.both[at].compact().tobytes() == wanted


def test_quantiles_are_those_of_runs() -> None:
    random = np.random.default_rng(10)
    keys = random.integers(0, 5, 1_000).astype(np.int32)
    first, second = random.integers(1, 900, (2, 1_000)).astype(np.int16)
    held = ShapeRuns()
    held.add(keys, first, second)
    found, rows = held.quantiles(0.5, 6)
    assert rows.tolist() == np.bincount(keys, minlength=6).tolist()
    for at, bins in enumerate((first, second)):
        alone = runs.Runs()
        alone.add(keys, bins.astype(np.int64))
        assert np.array_equal(found[at], alone.quantile(0.5, 6, whole=True), equal_nan=True)
    assert np.isnan(found[:, 5]).all() and not np.isnan(found[:, :5]).any()
