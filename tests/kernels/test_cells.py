"""Counts of sparse cells against a dict."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.cells import Cells

KEYS = st.lists(st.sampled_from([0, 1, 2, 1 << 12, 2**63, 2**64 - 1]), max_size=30)


def made(keys: list[int]) -> Cells:
    held = Cells()
    held.add(np.array(keys, np.uint64))
    return held


def as_dict(held: Cells) -> dict[int, int]:
    keys, counts = held.sorted()
    assert keys.tolist() == sorted(keys.tolist())
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


@given(KEYS, KEYS)
def test_counts_and_merging(first: list[int], second: list[int]) -> None:
    held, later = made(first), made(second)
    held.merge(later)
    assert as_dict(held) == Counter([*first, *second])
    assert as_dict(later) == Counter(second)


def test_many_cells_make_it_grow() -> None:
    keys = np.arange(100_000, dtype=np.uint64) % np.uint64(30_000) * np.uint64(1 << 20)
    held = Cells()
    for piece in np.array_split(keys, 7):
        held.add(piece)
    held.add(keys[:5], np.array([1, 2, 3, 4, 5]))
    expected = Counter(keys.tolist())
    expected.update(dict(zip(keys[:5].tolist(), [1, 2, 3, 4, 5], strict=True)))
    assert as_dict(held) == expected
    assert 3 * 30_000 <= 2 * len(held.store.keys) < 6 * 30_000
