"""All that a run of `kernels.runs` holds, bin by bin: tens of millions are handed over in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope.kernels.jit import kernel
from servescope.kernels.run_coding import NO_KEY, Bytes, Ints, bin_at, next_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@kernel
def _entries(run: Bytes, place: Ints, keys: Ints, bins: Ints, counts: Ints) -> int:
    """Fill keys, bins and counts with the filled bins from a place on; their number.

    place  int64[3], modified: where to read on, the key there, its bin before or NO_KEY where a key begins
    """
    at, key, here = place
    n = 0
    while n < len(keys) and at < len(run):
        if here == NO_KEY:
            key, at = next_key(run, at, len(run), key)
            here = -1
        if run[at] == 0:
            at += 1
            here = NO_KEY
            continue
        here, times, at = bin_at(run, at, here)
        keys[n], bins[n], counts[n] = key, here, times
        n += 1
    place[0], place[1], place[2] = at, key, here
    return n


def pieces(run: Bytes, most: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Keys, bins and counts of all filled bins, by key, then by bin: int64[n] each, `most` at a time.

    At least one piece; the next one overwrites the arrays. Slow twin: a Counter (tests/kernels/test_runs.py).
    """
    place = np.array([0, -1, NO_KEY], np.int64)
    keys, bins, counts = np.empty((3, most), np.int64)
    n = most
    while n == most:
        n = _entries(run, place, keys, bins, counts)
        yield keys[:n], bins[:n], counts[:n]
