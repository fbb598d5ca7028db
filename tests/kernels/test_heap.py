"""An indexed heap against sorting."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.kernels import heap


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_leave_the_smallest_key_then_order_first(seed: int) -> None:
    random = np.random.default_rng(seed)
    items = 30
    ranks = heap.new(items)
    held: dict[int, tuple[float, int]] = {}
    for order in range(400):
        if held and random.random() < 0.4:
            first = min(held, key=lambda item: held[item])
            item, key = heap.pop(ranks)
            assert (int(item), float(key)) == (first, held.pop(first)[0])
        else:
            item = np.int64(random.integers(items))
            key = np.float64(random.integers(6))
            held[int(item)] = (float(key), order)
            heap.put(ranks, item, key, order)
        assert ranks.length[0] == len(held)
        assert np.flatnonzero(ranks.nodes >= 0).tolist() == sorted(held)
