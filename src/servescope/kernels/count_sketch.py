"""How often dense numbers were seen of late, estimated in little memory: a count-min sketch that ages.

Four rows of counters, each hashed its own way; an estimate is the least of a number's four counters
(Cormode, Muthukrishnan, "An improved data stream summary", 2005). A doorkeeper, a Bloom filter of two
bits a number, holds what was seen once, so that only what comes again costs counters; after `sample`
sightings all counters are halved and the doorkeeper is emptied (Einziger, Friedman, Manes, "TinyLFU:
a highly efficient cache admission policy", ACM TOS 13(4), 2017, sections 3.3-3.4).

rows  uint8[5, width]: four rows of counters up to LARGEST, and the doorkeeper; width a power of two
seen  int64[2]: sightings since the start, as halved, and after how many the sketch ages
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.draws import mixed
from servescope.kernels.jit import borrowing_kernel

ROWS = 4
DOOR = 4
LARGEST = 15

Rows = npt.NDArray[np.uint8]
Seen = npt.NDArray[np.int64]


def empty_sketch(width: int, sample: int) -> tuple[Rows, Seen]:
    """A sketch that has seen nothing: rows of `width` counters or the next power of two, and `seen`."""
    return np.zeros((ROWS + 1, 1 << max(width - 1, 1).bit_length()), np.uint8), np.array([0, sample])


@borrowing_kernel
def estimate(rows: Rows, number: int) -> int:
    """How often `number` was seen of late: hardly ever too low, at times too high."""
    word = mixed(np.uint64(number) + np.uint64(1))
    mask = np.uint64(rows.shape[1] - 1)
    least = LARGEST
    for row in range(ROWS):
        place = mixed(word + np.uint64(row)) & mask
        least = min(least, int(rows[row, place]))
    known = rows[DOOR, word & mask] and rows[DOOR, (word >> np.uint64(32)) & mask]
    return least + (1 if known else 0)


@borrowing_kernel
def see(rows: Rows, seen: Seen, number: int) -> None:
    """Count one sighting of `number`. Changes the sketch."""
    word = mixed(np.uint64(number) + np.uint64(1))
    mask = np.uint64(rows.shape[1] - 1)
    one, other = word & mask, (word >> np.uint64(32)) & mask
    if rows[DOOR, one] and rows[DOOR, other]:
        for row in range(ROWS):
            place = mixed(word + np.uint64(row)) & mask
            if rows[row, place] < LARGEST:
                rows[row, place] += 1
    else:
        rows[DOOR, one] = 1
        rows[DOOR, other] = 1
    seen[0] += 1
    if seen[0] >= seen[1]:
        seen[0] //= 2
        for column in range(rows.shape[1]):
            for row in range(ROWS):
                rows[row, column] >>= 1
            rows[DOOR, column] = 0
