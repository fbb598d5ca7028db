"""Runs of counts against runs of values."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.run_counts import run_of
from tests.reference import runs as slow

KEY = st.sampled_from([0, 1, 5, 127, 128, 2**30])
PAIRS = st.lists(
    st.tuples(KEY, st.sampled_from([0, 1, 63, 2_500]), st.sampled_from([1, 2, 300])), max_size=20
)


@given(PAIRS)
def test_a_run_of_counts_is_that_of_the_values(pairs: list[tuple[int, int, int]]) -> None:
    counts = Counter[tuple[int, int]]()
    for key, where, times in pairs:
        counts[key, where] += times
    entries = np.array([(*pair, times) for pair, times in counts.items()], np.int64).reshape(-1, 3)
    assert run_of(*entries.T).tobytes() == slow.run(list(counts.elements()))
