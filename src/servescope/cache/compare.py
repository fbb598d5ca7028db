"""How far two policies differ, and how far that depends on who happened to be in the trace.

Users are drawn anew with replacement (bootstrap over users), as often as there are users; each draw weighs a
user's requests and hits by how often the user was drawn. The interval holds the middle 95 % of the
differences; one that spans 0 is called a tie. The replays stay as they are: who is left out, or drawn twice,
has shared the cache all the same.

Sums of weighted counts are whole numbers below 2^53, exact in float64 in any order: same seed, same bytes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

RESAMPLES = 1_000
AT_ONCE = 50  # resamples whose weights are held together
MIDDLE = (0.025, 0.975)


class Interval(NamedTuple):
    """A difference with its interval; None where fewer than two users are left to draw from."""

    difference: float | None
    low: float | None
    high: float | None

    @property
    def tie(self) -> bool | None:
        """Whether the interval spans 0; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 0 <= self.high


def pairs_of(names: Sequence[str], ratios: Sequence[float | None], against: str) -> list[tuple[int, int]]:
    """Pairs to compare: each policy with `against`, then neighbours in rank, the higher one first.

    ratios  of the policies, in the order of the names; None ranks last
    """
    common = [(place, names.index(against)) for place, name in enumerate(names) if against in names]
    pairs = [pair for pair in common if pair[0] != pair[1]]
    known = [-1.0 if ratio is None else ratio for ratio in ratios]
    order = sorted(range(len(names)), key=lambda place: -known[place])
    neighbours = itertools.pairwise(order)
    return [*pairs, *(pair for pair in neighbours if against not in (names[pair[0]], names[pair[1]]))]


def intervals(
    hits: Ints,
    bases: Ints,
    pairs: Sequence[tuple[int, int]],
    *,
    left_out: int | None = None,
    seed: int = 10,
    resamples: int = RESAMPLES,
) -> list[Interval]:
    """The difference of every pair's ratio, first minus second, over all groups.

    hits      int64[columns, groups], what is divided: one row a policy and size
    bases     int64[groups], what it is divided by
    pairs     rows of `hits`
    left_out  a group whose requests are not counted
    """
    if left_out is not None:
        hits, bases = np.delete(hits, left_out, axis=1), np.delete(bases, left_out)
    held = bases > 0  # who sent nothing after the warm-up is not in the sample
    hits, bases = hits[:, held], bases[held]
    if not len(bases):
        return [Interval(None, None, None)] * len(pairs)
    one, other = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    whole = hits.sum(axis=1) / bases.sum()
    differences = (whole[one] - whole[other]).tolist()
    if len(bases) < 2:
        return [Interval(difference, None, None) for difference in differences]
    drawn = _drawn(hits.astype(np.float64), bases.astype(np.float64), seed, resamples)
    ends = np.empty((2, len(pairs)))
    for place in range(len(pairs)):
        ends[:, place] = np.quantile(drawn[:, one[place]] - drawn[:, other[place]], MIDDLE)
    return [Interval(*found) for found in zip(differences, *ends.tolist(), strict=True)]


def _drawn(hits: Floats, bases: Floats, seed: int, resamples: int) -> Floats:
    """Ratios of every resample: float64[resamples, columns]."""
    random = np.random.default_rng(seed)
    groups = len(bases)
    found = np.empty((resamples, len(hits)))
    for start in range(0, resamples, AT_ONCE):
        rows = min(AT_ONCE, resamples - start)
        weights = np.empty((rows, groups))
        for row in range(rows):
            weights[row] = np.bincount(random.integers(0, groups, groups), minlength=groups)
        found[start : start + rows] = (weights @ hits.T) / (weights @ bases)[:, None]
    return found
