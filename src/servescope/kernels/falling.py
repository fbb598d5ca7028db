"""The greatest of many values that fall at steady rates: size x (end - now), at any time.

A tournament tree over places: every node knows who wins below it and until when that is certain
(a kinetic tournament: Basch, Guibas, Hershberger, "Data structures for mobile data", SODA 1997).
Entering, leaving and changing cost log(places); as time passes only nodes whose certainty ended
are played again. The answer is exact, that of a full scan.

A tree of `width` places (a power of two) is four arrays; leaf of place p is node width + p.

sizes   int64[width], how fast the value of a place falls per step, at least 0
ends    int64[width], when the value of a place is zero; no two alike
winner  int32[2 * width], place that wins below a node, NOBODY for none
until   int64[2 * width], last time at which all winners at and below a node are certain

Every size x end must be below 2^62. Equal values: the greater size wins, then the later end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel

NOBODY = -1
ALWAYS = np.iinfo(np.int64).max

Longs = npt.NDArray[np.int64]
Tree = tuple[Longs, Longs, npt.NDArray[np.int32], Longs]


def empty_tree(places: int) -> Tree:
    """A tree of at least `places` places, all empty."""
    width = 1 << max(places - 1, 0).bit_length()
    winner = np.full(2 * width, NOBODY, np.int32)
    until = np.full(2 * width, ALWAYS, np.int64)
    return np.zeros(width, np.int64), np.zeros(width, np.int64), winner, until


@borrowing_kernel
def beats(size: int, end: int, other_size: int, other_end: int, now: int) -> bool:
    """Whether the value of the first is greater at `now`; equal values as the module says."""
    lead = size * (end - now) - other_size * (other_end - now)
    if lead == 0:
        return bool(size > other_size or (size == other_size and end > other_end))
    return bool(lead > 0)


@borrowing_kernel
def _play(
    sizes: Longs, ends: Longs, winner: npt.NDArray[np.int32], until: Longs, node: int, now: int
) -> None:
    """Settle who wins at `node` from who wins at its two children. Changes winner and until."""
    one, other = winner[2 * node], winner[2 * node + 1]
    certain = min(until[2 * node], until[2 * node + 1])
    if one == NOBODY or other == NOBODY:
        winner[node] = max(one, other)
        until[node] = certain
        return
    if beats(sizes[other], ends[other], sizes[one], ends[one], now):
        one, other = other, one
    winner[node] = one
    if sizes[one] > sizes[other]:  # the winner falls faster: it leads up to where the lines cross
        cross = sizes[one] * ends[one] - sizes[other] * ends[other]
        certain = min(certain, cross // (sizes[one] - sizes[other]))
    until[node] = certain


@borrowing_kernel
def _play_up(
    sizes: Longs, ends: Longs, winner: npt.NDArray[np.int32], until: Longs, node: int, changed: int, now: int
) -> None:
    """Settle `node` and what depends on it above. Changes winner and until.

    changed  the place whose value is new; NOBODY if only time passed
    """
    while node >= 1:
        before, certain = winner[node], until[node]
        _play(sizes, ends, winner, until, node, now)
        if winner[node] == before != changed and until[node] == certain:
            return  # what stands above was settled with the same winner
        node >>= 1


@borrowing_kernel
def put(sizes: Longs, ends: Longs, winner: npt.NDArray[np.int32], until: Longs, place: int, now: int) -> None:
    """Say that sizes[place] and ends[place] are new; the place was empty or not. Changes the tree."""
    leaf = len(sizes) + place
    winner[leaf] = place
    _play_up(sizes, ends, winner, until, leaf >> 1, place, now)


@borrowing_kernel
def take(
    sizes: Longs, ends: Longs, winner: npt.NDArray[np.int32], until: Longs, place: int, now: int
) -> None:
    """Empty a place. Changes the tree."""
    leaf = len(sizes) + place
    winner[leaf] = NOBODY
    _play_up(sizes, ends, winner, until, leaf >> 1, place, now)


@borrowing_kernel
def greatest(sizes: Longs, ends: Longs, winner: npt.NDArray[np.int32], until: Longs, now: int) -> int:
    """Place of the greatest value at `now`, NOBODY if all are empty; `now` never falls between calls.

    Changes the tree: plays again what is not certain any more.
    """
    while until[1] < now:
        node = 1
        while True:
            if until[2 * node] < now:
                node = 2 * node
            elif until[2 * node + 1] < now:
                node = 2 * node + 1
            else:
                break
        _play_up(sizes, ends, winner, until, node, NOBODY, now)
    return int(winner[1])
