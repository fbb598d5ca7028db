"""Histograms of many keys as sorted runs, against dicts."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import runs
from servescope.kernels.histogram import LOG_BINS, REAL_CENTRES, WHOLE_CENTRES, log_bins, quantile
from servescope.kernels.run_pieces import pieces
from servescope.kernels.runs import Runs, between
from tests.reference import runs as slow

KEYS = st.sampled_from([0, 1, 2, 3, 127, 128, 300, 2**31 - 1])
BINS = st.sampled_from([0, 1, 2, 62, 63, 64, 1_500, LOG_BINS - 1])
PAIRS = st.lists(st.tuples(KEYS, BINS), max_size=60)


def made(pairs: list[tuple[int, int]], pieces: int = 1) -> Runs:
    """Pairs added in several calls."""
    held = Runs()
    for piece in np.array_split(np.array(pairs, np.int64).reshape(-1, 2), pieces):
        held.add(piece[:, 0].astype(np.int32), np.ascontiguousarray(piece[:, 1]))
    return held


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CHUNK", 4)
    monkeypatch.setattr(runs, "FAN", 3)


@given(PAIRS, st.integers(1, 5))
def test_the_one_run_is_the_coding_of_all_values(pairs: list[tuple[int, int]], pieces: int) -> None:
    held = made(pairs, pieces)
    assert held.compact().tobytes() == slow.run(pairs)
    assert held.compact().tobytes() == slow.run(pairs)


@given(PAIRS, PAIRS, PAIRS)
def test_merging_in_any_order_gives_the_same(
    a: list[tuple[int, int]], b: list[tuple[int, int]], c: list[tuple[int, int]]
) -> None:
    left, right = made(a), made(b)
    left.merge(made(b))
    left.merge(pickle.loads(pickle.dumps(made(c))))
    right.merge(made(c))
    right.merge(made(a))
    assert left.compact().tobytes() == right.compact().tobytes() == slow.run([*a, *b, *c])


def test_counts_of_any_size() -> None:
    held = made([(7, 9)] * 300 + [(7, 10), (8, 9)])
    for _ in range(12):
        other = made([])
        other.levels = [[held.compact().copy()]]
        held.merge(other)
    assert held.compact().tobytes() == slow.run([(7, 9)] * (300 << 12) + [(7, 10), (8, 9)] * (1 << 12))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10**6)), max_size=60),
    st.sampled_from([0, 0.5, 0.9, 1]),
)
def test_quantiles_are_those_of_one_histogram_a_key(values: list[tuple[int, int]], q: float) -> None:
    bins = [(key, int(np.argmax(log_bins(np.array([float(value)]))))) for key, value in values]
    for whole, centres in ((True, WHOLE_CENTRES), (False, REAL_CENTRES)):
        found = made(bins).quantile(q, 5, whole=whole)
        assert len(centres) == LOG_BINS
        for key in range(5):
            own = np.array([float(v) for k, v in values if k == key])
            expected = quantile(log_bins(own), q, whole=whole)
            assert np.isnan(found[key]) if expected is None else found[key] == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10**6)), max_size=60), st.integers(1, 12))
def test_ranked_and_pieces_are_those_of_dicts(values: list[tuple[int, int]], least: int) -> None:
    bins = [(key, int(np.argmax(log_bins(np.array([float(value)]))))) for key, value in values]
    counts = Counter(bins)
    found = [np.stack(piece, 1).tolist() for piece in pieces(made(bins).compact(), least)]
    assert list(chain(*found)) == [[*at, counts[at]] for at in sorted(counts)]
    assert all(len(piece) == least for piece in found[:-1])
    q = (0.0, 0.1, 0.5, 0.9, 1.0)
    keys, totals, places = made(bins).ranked(q, least)
    own = Counter(key for key, _ in bins)
    assert dict(zip(keys.tolist(), totals.tolist(), strict=True)) == {
        k: n for k, n in own.items() if n >= least
    }
    for at, row in zip(keys.tolist(), between(totals, places, q, whole=True).tolist(), strict=True):
        whole = log_bins(np.array([float(v) for k, v in values if k == at]))
        assert row == [quantile(whole, one, whole=True) for one in q]


def test_what_is_negative_is_no_value() -> None:
    held = Runs()
    held.add(np.array([-1, 3, 4], np.int32), np.array([5, -1, 6]))
    assert held.compact().tobytes() == slow.run([(4, 6)])
    assert np.isnan(Runs().quantile(0.5, 2)).all()
