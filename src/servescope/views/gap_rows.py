"""Rows of the tables of `model_gaps` from its counts, without an array for each step of a formula."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.views.model_gap_fold import FINE, GROUPS, TOGETHER, US_PER_S, WIDE_BINS, Ints

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint32]
PREVIOUS_LOW, PREVIOUS_HIGH, NEXT_LOW, NEXT_HIGH = range(4)
MEAN, DEVIATIONS, VARIATION = range(3)


@kernel
def pair_rows(
    keys: Ints, bins: Ints, edges: Floats, models: npt.NDArray[np.int32], places: tuple[Floats, ...]
) -> None:
    """Models and edges of the bins of two gaps, from a key and a bin of `ModelGaps.previous`.

    keys, bins  int64[n]
    edges       float64, `histogram.EDGES`
    models      int32[n], modified
    places      four of float64[n], seconds, by PREVIOUS_LOW …, modified
    """
    for i in range(len(keys)):
        key, place = np.uint32(keys[i]), np.uint32(bins[i])  # divided by a multiplication
        model, rest = key // np.uint32(GROUPS), place // np.uint32(WIDE_BINS)
        models[i] = model
        before = np.int64(key - model * np.uint32(GROUPS)) * TOGETHER + np.int64(rest)
        here = np.int64(place) - np.int64(rest) * WIDE_BINS
        places[PREVIOUS_LOW][i], places[PREVIOUS_HIGH][i] = edges[before * FINE], edges[(before + 1) * FINE]
        places[NEXT_LOW][i], places[NEXT_HIGH][i] = edges[here * FINE], edges[(here + 1) * FINE]


@kernel
def hour_rows(gaps: Counts, sums: Counts, spread: Floats, found: tuple[Floats, ...]) -> None:
    """Mean (s), sum of squared deviations (s^2) and coefficient of variation of gaps of cells.

    gaps, sums  uint32[n], number and sum in microseconds
    spread      float64[n], `spreads` of them
    found       three of float64[n], by MEAN …, modified; of no use where a cell has too few gaps
    """
    for i in range(len(gaps)):
        n = float(max(gaps[i], np.uint32(1)))
        mean_us = sums[i] / n
        deviation_us = np.sqrt(spread[i] / (n * max(n - 1.0, 1.0)))
        found[MEAN][i] = mean_us / US_PER_S
        found[DEVIATIONS][i] = spread[i] / n / US_PER_S**2
        found[VARIATION][i] = deviation_us / (mean_us if gaps[i] > 0 else 1.0)
