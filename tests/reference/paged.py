"""Histograms by key in plain dicts: the slow twin of `kernels/paged.py`."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from servescope.kernels.histogram import LOG_BINS, quantile


class SlowPaged:
    """key -> bin -> count."""

    def __init__(self) -> None:
        self.held: dict[int, Counter[int]] = defaultdict(Counter)

    def add(self, keys: list[int], bins: list[int]) -> None:
        for key, place in zip(keys, bins, strict=True):
            self.held[key][place] += 1

    def total(self, key: int) -> int:
        return sum(self.held[key].values())

    def quantile(self, key: int, q: float, whole: bool) -> float | None:
        counts = np.zeros(LOG_BINS, np.int64)
        for place, count in self.held[key].items():
            counts[place] = count
        return quantile(counts, q, whole=whole)
