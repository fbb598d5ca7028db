"""Rows of the tables of `pairs` in order, from its records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.views.pair_map import GAPS, KEY, KEY_BITS, REQUESTS, Ints

Codes = npt.NDArray[np.int32]


@kernel
def _by(codes: Codes, rows: Codes, ends: Ints) -> Codes:
    """The rows by their codes, those of one code as they came; ends: int64[codes + 1], all 0, modified."""
    for row in rows:
        ends[codes[row] + 1] += 1
    for code in range(1, len(ends)):
        ends[code] += ends[code - 1]
    found = np.empty(len(rows), np.int32)
    for row in rows:
        found[ends[codes[row]]] = row
        ends[codes[row]] += 1
    return found


@kernel
def _codes(records: Ints, users: Codes, models: Codes) -> None:
    """Write the codes of the pairs."""
    for row in range(len(records)):
        key = records[row, KEY]
        users[row], models[row] = key >> KEY_BITS, key & ((1 << KEY_BITS) - 1)


@kernel
def _taken(records: Ints, order: Codes, requests: Ints, gaps: Ints) -> None:
    """Write the counts of the pairs in order."""
    for at in range(len(order)):
        requests[at], gaps[at] = records[order[at], REQUESTS], records[order[at], GAPS]


def pair_rows(records: Ints, users: int, models: int) -> tuple[Codes, Codes, Ints, Ints]:
    """Users, models, requests and gaps of all pairs, by user, then by model.

    records        int64[n, WORDS] of `PairMap`
    users, models  how many codes there are

    Sorted by counting, first by model, then by user: a third of the time of sorting the keys.
    """
    user, model = np.empty((2, len(records)), np.int32)
    _codes(records, user, model)
    order = _by(model, np.arange(len(records), dtype=np.int32), np.zeros(models + 1, np.int64))
    order = _by(user, order, np.zeros(users + 1, np.int64))
    requests, gaps = np.empty((2, len(records)), np.int64)
    _taken(records, order, requests, gaps)
    return user[order], model[order], requests, gaps
