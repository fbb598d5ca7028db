"""Requests as forests and chains: roots, links inside sessions, next accesses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel


@kernel
def roots(parent: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Root of every row of a forest whose parents come earlier: int64[n].

    parent  int64[n], index of the parent, below the row's own index; negative for a root
    """
    root = np.empty(len(parent), np.int64)
    for i in range(len(parent)):
        root[i] = i if parent[i] < 0 else root[parent[i]]
    return root


@kernel
def links(session: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Previous row of each row's session (-1: none), and its place in the session from 1 (0: no session).

    session  int64[n], dense codes from 0, negative for none; not modified
    """
    sessions = session.max() + 1 if len(session) else 0
    last = np.full(sessions, -1, np.int64)
    count = np.zeros(sessions, np.int64)
    previous = np.full(len(session), -1, np.int64)
    place = np.zeros(len(session), np.int64)
    for i in range(len(session)):
        s = session[i]
        if s >= 0:
            previous[i] = last[s]
            last[s] = i
            count[s] += 1
            place[i] = count[s]
    return previous, place


@kernel
def next_access(session: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number, from 1, of the next row of the same session; -1 where there is none: int64[n].

    session  int64[n], dense codes from 0; not modified
    """
    sessions = session.max() + 1 if len(session) else 0
    seen = np.full(sessions, -1, np.int64)
    later = np.empty(len(session), np.int64)
    for i in range(len(session) - 1, -1, -1):
        later[i] = seen[session[i]]
        seen[session[i]] = i + 1
    return later
