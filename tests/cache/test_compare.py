"""Intervals of differences: against plain Python, and against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.cache.compare import Interval, intervals, pairs_of


def test_pairs_are_all_against_one_then_neighbours_in_rank() -> None:
    names, ratios = ["fifo", "lru", "arc", "sieve"], [0.1, 0.5, 0.7, 0.2]
    assert pairs_of(names, ratios, "lru") == [(0, 1), (2, 1), (3, 1), (3, 0)]
    assert pairs_of(["fifo", "arc"], [0.1, None], "lru") == [(0, 1)]
    assert pairs_of(["lru"], [0.3], "lru") == []


def plainly(hits: list[list[int]], bases: list[int], seed: int, resamples: int) -> tuple[float, float]:
    """The interval of row 0 minus row 1, one draw after another."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        drawn = random.integers(0, len(bases), len(bases))
        total = sum(bases[user] for user in drawn)
        found.append((sum(hits[0][u] for u in drawn) - sum(hits[1][u] for u in drawn)) / total)
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def test_the_same_as_one_draw_after_another() -> None:
    random = np.random.default_rng(3)
    bases = random.integers(1, 90, 37)
    hits = np.stack([random.integers(0, bases + 1) for _ in range(2)])
    (found,) = intervals(hits, bases, [(0, 1)], seed=5, resamples=120)
    assert found.difference == pytest.approx((hits[0].sum() - hits[1].sum()) / bases.sum(), abs=1e-15)
    assert (found.low, found.high) == pytest.approx(plainly(hits.tolist(), bases.tolist(), 5, 120), abs=1e-12)


def test_a_group_left_out_is_as_if_it_were_not_there() -> None:
    hits, bases = np.array([[5, 900, 3, 0], [4, 100, 4, 1]]), np.array([9, 1000, 8, 7])
    kept = [0, 2, 3]
    assert intervals(hits, bases, [(0, 1)], left_out=1) == intervals(hits[:, kept], bases[kept], [(0, 1)])


def test_one_heavy_user_makes_a_large_difference_a_tie() -> None:
    bases = np.array([10_000, *[10] * 50])
    hits = np.array([[9_000, *[5] * 50], [1_000, *[5] * 50]])
    (found,) = intervals(hits, bases, [(0, 1)])
    assert found.difference is not None and found.difference > 0.7
    assert found.low == 0.0 and found.tie is True
    (rest,) = intervals(hits, bases, [(0, 1)], left_out=0)
    assert rest == Interval(0.0, 0.0, 0.0) and rest.tie


def test_a_difference_that_every_user_shares_is_none() -> None:
    bases = np.full(200, 100)
    hits = np.stack([np.full(200, 60), np.full(200, 50)])
    (found,) = intervals(hits, bases, [(0, 1)])
    assert found.tie is False and found.low == pytest.approx(0.1) == found.high


def test_too_few_users_have_no_interval() -> None:
    hits, bases = np.array([[3, 0], [1, 0]]), np.array([4, 0])
    assert intervals(hits, bases, [(0, 1)]) == [Interval(0.5, None, None)]
    assert intervals(hits, bases, [(0, 1)], left_out=0) == [Interval(None, None, None)]
    assert Interval(0.5, None, None).tie is None


def test_about_95_of_100_intervals_hold_the_truth() -> None:
    random = np.random.default_rng(11)
    held = 0
    for seed in range(200):
        bases = random.integers(5, 40, 120)
        hits = np.stack([random.binomial(bases, share) for share in (0.55, 0.5)])
        (found,) = intervals(hits, bases, [(0, 1)], seed=seed, resamples=200)
        assert found.low is not None and found.high is not None
        held += found.low <= 0.05 <= found.high
    assert 178 <= held <= 199
