"""What is counted of sessions: whole numbers that add up over buckets in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.cells import Cells, Store, count, has_room
from servescope.kernels.histogram import LOG_BINS, log_bin
from servescope.kernels.jit import kernel
from servescope.sessions.rule import CANDIDATES, PARENT, PAUSE, PREFIX, TIED, TURN

Ints = npt.NDArray[np.int64]

KNOWN, NEGATIVE, UNKNOWN = 0, 1, 2  # what is in a bin: a value, its opposite, or nothing
BIN_BITS = 12
SIGN_BITS = 2
SECOND_US = 1e6
INPUT_TOKENS, PREFIX_TOKENS, LINKED, UNDECIDED = range(4)  # places in `sums`
SUMS = 4


@kernel
def _signed_bin(value: int, scale: float) -> int:
    """Bin of a whole number, its sign beside it; `schema.NULL_INT64` stands for unknown."""
    if value == schema.NULL_INT64:
        return UNKNOWN << BIN_BITS
    if value < 0:
        return NEGATIVE << BIN_BITS | log_bin(-value / scale)
    return KNOWN << BIN_BITS | log_bin(value / scale)


@kernel
def _add(
    links: Ints, tokens: Ints, row: int, turns: Ints, sums: Ints, growth: Store, pauses: Ints, fitting: Ints
) -> int:
    """Count links from `row` on until `growth` is full: the row reached; see `Tally`."""
    while row < len(links) and has_room(growth, 1):
        turns[links[row, TURN]] += 1
        own, prefix = tokens[row], links[row, PREFIX]
        sums[INPUT_TOKENS] += 0 if own == schema.NULL_INT64 else own
        if links[row, PARENT] >= 0:
            sums[LINKED] += 1
            added: Any = np.int64(schema.NULL_INT64)
            if own != schema.NULL_INT64 and prefix != schema.NULL_INT64:
                sums[PREFIX_TOKENS] += min(own, prefix)
                added = own - prefix
            key = links[row, TURN] << (BIN_BITS + SIGN_BITS) | _signed_bin(added, 1.0)
            count(growth, np.uint64(key), 1)
            pauses[_signed_bin(links[row, PAUSE], SECOND_US)] += 1
            fitting[0, links[row, CANDIDATES]] += 1
            fitting[1, links[row, CANDIDATES]] += links[row, TIED] > 1
        else:
            sums[UNDECIDED] += links[row, CANDIDATES] > 0
        row += 1
    return row


def longer(counts: Ints, length: int) -> Ints:
    """Counts with room for `length` of them, along the last axis."""
    missing = length - counts.shape[-1]
    if missing <= 0:
        return counts
    room = max(missing, counts.shape[-1])  # twice as many: turns come one by one
    return np.concatenate([counts, np.zeros((*counts.shape[:-1], room), np.int64)], axis=-1)


def _sum(counts: Ints, others: Ints) -> Ints:
    """Both, element by element, the shorter one followed by zeros."""
    counts = longer(counts, others.shape[-1])
    counts[..., : others.shape[-1]] += others
    return counts


@dataclass
class Tally:
    """Counts of links. Changed by `add` and `merge`.

    turns    int64[n], requests by turn
    sums     int64[SUMS]: input tokens; prefix tokens, at most the input of each; requests with a parent;
             requests without one though some fitted
    growth   cells of turn, sign and bin of what a linked turn adds
    pauses   int64[3 << BIN_BITS], by sign and bin of seconds from the parent's end
    fitting  int64[2, n], linked turns by number of candidates: all, and those whose choice was a tie
    """

    turns: Ints = field(default_factory=lambda: np.zeros(16, np.int64))
    sums: Ints = field(default_factory=lambda: np.zeros(SUMS, np.int64))
    growth: Cells = field(default_factory=Cells)
    pauses: Ints = field(default_factory=lambda: np.zeros(3 << BIN_BITS, np.int64))
    fitting: Ints = field(default_factory=lambda: np.zeros((2, 16), np.int64))

    def add(self, links: Ints, tokens: Ints) -> None:
        """Count links.

        links   int64[n, LINK_FIELDS], see `rule`; PREFIX and PAUSE may be `schema.NULL_INT64`
        tokens  int64[n], input, `schema.NULL_INT64` for unknown
        """
        if not len(links):
            return
        self.turns = longer(self.turns, int(links[:, TURN].max()) + 1)
        self.fitting = longer(self.fitting, int(links[:, CANDIDATES].max()) + 1)
        row = 0
        while row < len(links):
            row = _add(
                links, tokens, row, self.turns, self.sums, self.growth.store, self.pauses, self.fitting
            )
            if row < len(links):
                self.growth.grow()

    def merge(self, other: Tally) -> None:
        """Add all counts of another, which is not modified."""
        self.turns = _sum(self.turns, other.turns)
        self.fitting = _sum(self.fitting, other.fitting)
        self.sums += other.sums
        self.growth.merge(other.growth)
        self.pauses += other.pauses

    def lengths(self) -> tuple[Ints, Ints]:
        """Numbers of turns, ascending, and the chains that have exactly so many."""
        by_turn = np.append(self.turns[1:], 0)
        exactly = by_turn[:-1] - by_turn[1:]
        used = np.flatnonzero(exactly)
        return used + 1, exactly[used]


assert LOG_BINS <= 1 << BIN_BITS
