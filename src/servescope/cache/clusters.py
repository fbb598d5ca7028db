"""Whose request it is: the groups over which differences between policies are resampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

MOST = 1 << 14  # more users are dealt into so many groups; 16,383 degrees of freedom are enough


@dataclass(frozen=True)
class Clusters:
    """Groups of requests that belong together.

    codes     int32[n], group of each request
    count     number of groups
    members   how many users (or sessions) they hold
    kind      "user", or "session" where no request has a user
    heaviest  group that is the member with most requests alone
    """

    codes: npt.NDArray[np.int32]
    count: int
    members: int
    kind: str
    heaviest: int

    def sums(self, values: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
        """Totals of the values of requests from `first` on: int64[count]."""
        found = np.zeros(self.count, np.int64)
        _add(found, self.codes, values, first)
        return found


def clusters_of(
    users: npt.NDArray[np.int32], objects: npt.NDArray[np.int32], *, first: int = 0, seed: int = 10
) -> Clusters:
    """Users as groups; a request without one belongs to its session.

    users    int32[n], codes, -1 for none
    objects  int32[n], dense codes of sessions
    first    requests before it do not count for who is the heaviest

    Above `MOST` members all but the heaviest are dealt into groups at random: sums over random groups vary
    as sums over their members do, and resampling costs no more than for `MOST` users.
    """
    kind = "user" if (users >= 0).any() else "session"
    keys = np.where(users >= 0, users.astype(np.int64), -2 - objects.astype(np.int64))
    _, firsts, sorted_codes = np.unique(keys, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(firsts)).astype(np.int32)[sorted_codes]  # by first request
    members = int(codes.max(initial=-1)) + 1
    if not members:
        return Clusters(codes, 0, 0, kind, 0)
    heaviest = int(np.bincount(codes[first:], minlength=members).argmax())
    if members <= MOST:
        return Clusters(codes, members, members, kind, heaviest)
    place = (np.random.default_rng(seed).permutation(members) % (MOST - 1) + 1).astype(np.int32)
    place[heaviest] = 0
    return Clusters(place[codes], MOST, members, kind, 0)


@kernel
def _add(
    totals: npt.NDArray[np.int64], codes: npt.NDArray[np.int32], values: npt.NDArray[np.int64], first: int
) -> None:
    for number in range(first, len(codes)):
        totals[codes[number]] += values[number]


@kernel
def tally(
    hits: npt.NDArray[np.uint8],
    credits: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int32],
    first: int,
    totals: npt.NDArray[np.int64],
) -> None:
    """Count hits and credited tokens by group from request `first` on. Changes totals, int64[2, groups]."""
    for number in range(first, len(hits)):
        if hits[number]:
            totals[0, codes[number]] += 1
            totals[1, codes[number]] += credits[number]
