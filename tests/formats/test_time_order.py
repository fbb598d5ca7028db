"""Shared timestamps, counted group by group, against all times at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.formats.time_order import Ties


@given(st.lists(st.lists(st.integers(0, 1), max_size=6), max_size=6))
def test_ties_are_counted_across_groups(steps: list[list[int]]) -> None:
    ties, latest = Ties(), 0
    every: list[int] = []
    for group in steps:
        times = latest + np.cumsum(np.array(group, np.int64))
        ties.add(times)
        every += times.tolist()
        latest = every[-1] if every else 0
    counts = np.unique_counts(np.array(every, np.int64)).counts
    shared = counts[counts > 1]
    assert (ties.shared, ties.requests) == (len(shared), shared.sum())
