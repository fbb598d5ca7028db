"""Counting whole hours of balance rows: instance-minutes, latency by load, users' hours, their spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels import hashmap
from servescope.kernels.cells import Cells
from servescope.kernels.histogram import log_bin
from servescope.kernels.jit import kernel
from servescope.kernels.room import grown
from servescope.views.balance_rows import (
    CLOCK,
    CT,
    DECODE,
    INSTANCE,
    IT,
    OT,
    PLACE,
    TTFT,
    UNKNOWN,
    USER,
    Rows,
)
from servescope.views.clock import HOUR_US

Ints = npt.NDArray[np.int64]
Piece = tuple[npt.NDArray[np.int32], Ints]
MINUTE_US = 60_000_000
SECOND_US = 1_000_000
AXIS_BINS = 10  # of a log bin of 100 a decade: the axes of load and length have 10 bins a decade
LOADS = -1  # of the scratch
BUSY = 200  # requests of a user's hour whose spread over instances is kept
# a key of a load cell: place (12 bits), metric (1), load (9), tokens (9), latency (12)
LOAD_METRICS = ("ttft", "decode")


@kernel
def axis_bin(tokens: int) -> int:
    """Log bin of tokens, 10 a decade, from 0 for 10^-12; tokens above 0."""
    return (log_bin(float(tokens)) - 1) // AXIS_BINS


@kernel
def periods_of(
    rows: Rows, column: int, where: npt.NDArray[np.int32], period_us: int, both: bool
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Requests and tokens by period, model and instance or user, in order of appearance.

    rows       whole periods in time order; those with a negative code are left out
    column     INSTANCE or USER
    where      int32[codes, places], modified; it may hold anything of an earlier call
    period_us  length of a period
    both       the tokens are input + output where both are known, else the known input
    returns    int32[cells, 4]: period, place, code, requests; int64[cells, 2]: tokens, cached tokens;
               int64[rows]: cell of each row, or -1
    """
    cells, sums = np.empty((len(rows) + 1, 4), np.int32), np.empty((len(rows) + 1, 2), np.int64)
    cell_of = np.empty(len(rows), np.int64)
    used, period, end = 0, 0, np.int64(-(2**63))
    for i in range(len(rows)):
        place, code = rows[i, PLACE], rows[i, column]
        cell_of[i] = -1
        if code < 0:
            continue
        if rows[i, CLOCK] >= end:  # in order, so that a division a period will do
            period = rows[i, CLOCK] // period_us
            end = (period + 1) * period_us
        at = np.int64(where[code, place])
        # a place that an earlier call wrote lies beyond the cells, or holds one of another key
        old = at if at < used else np.int64(0)
        held = (at < used) & (cells[old, 0] == period) & (cells[old, 1] == place) & (cells[old, 2] == code)
        # no branch: the key is written again, what is new begins with 0
        at = at if held else np.int64(used)
        used += not held
        where[code, place] = cell_of[i] = at
        cells[at, 0], cells[at, 1], cells[at, 2] = period, place, code
        cells[at, 3] = (cells[at, 3] if held else 0) + 1
        known = (rows[i, IT] != schema.NULL_INT32) & ((not both) | (rows[i, OT] != schema.NULL_INT32))
        tokens = rows[i, IT] + (rows[i, OT] if both else 0)
        sums[at, 0] = (sums[at, 0] if held else 0) + (tokens if known else 0)
        sums[at, 1] = (sums[at, 1] if held else 0) + (rows[i, CT] if rows[i, CT] != schema.NULL_INT32 else 0)
    return cells[:used].copy(), sums[:used].copy(), cell_of


@kernel
def spread_of(
    rows: Rows, cell_of: npt.NDArray[np.int64], cells: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Requests, input and cached tokens of busy user-hours by instance, in order of appearance.

    cell_of, cells  what `periods_of` said of the rows' hours and users
    returns         int64[n, 5]: cell, instance (-1: none), requests, input, cached
    """
    busy = 0
    for i in range(len(rows)):
        busy += cell_of[i] >= 0 and cells[cell_of[i], 3] >= BUSY
    slots = 1024
    while slots < 2 * busy:
        slots *= 2
    keys, places = np.zeros(slots, np.uint64), np.full(slots, hashmap.EMPTY)
    found = np.zeros((busy, 5), np.int64)
    used = 0
    for i in range(len(rows)):
        cell = cell_of[i]
        if cell < 0 or cells[cell, 3] < BUSY:
            continue
        key = np.uint64(cell << 32 | rows[i, INSTANCE] + 1)
        slot = hashmap.slot_of(keys, places, key)
        if places[slot] == hashmap.EMPTY:
            keys[slot], places[slot] = key, used
            found[used, 0], found[used, 1] = cell, rows[i, INSTANCE]
            used += 1
        at = places[slot]
        found[at, 2] += 1
        found[at, 3] += rows[i, IT] if rows[i, IT] != schema.NULL_INT32 else 0
        found[at, 4] += rows[i, CT] if rows[i, CT] != schema.NULL_INT32 else 0
    return found[:used].copy()


@kernel
def loads_of(rows: Rows, sums: Ints) -> npt.NDArray[np.int64]:
    """Load of each row, int64[rows]: tokens of its second, model and instance; 0 where none are known.

    rows  whole seconds in time order
    sums  int64[instances, places], all 0, and 0 again afterwards
    """
    loads = np.empty(len(rows), np.int64)
    first = 0
    for i in range(len(rows)):
        known = (
            (rows[i, INSTANCE] >= 0) & (rows[i, IT] != schema.NULL_INT32) & (rows[i, OT] != schema.NULL_INT32)
        )
        loads[i] = rows[i, IT] + rows[i, OT] if known else 0
    while first < len(rows):
        end, after = first + 1, (rows[first, CLOCK] // SECOND_US + 1) * SECOND_US
        while end < len(rows) and rows[end, CLOCK] < after:
            end += 1
        if end - first > 1:  # most are alone
            for i in range(first, end):
                if rows[i, INSTANCE] >= 0:
                    sums[rows[i, INSTANCE], rows[i, PLACE]] += loads[i]
            for i in range(first, end):
                if rows[i, INSTANCE] >= 0:
                    loads[i] = sums[rows[i, INSTANCE], rows[i, PLACE]]
            for i in range(first, end):
                if rows[i, INSTANCE] >= 0:
                    sums[rows[i, INSTANCE], rows[i, PLACE]] = 0
        first = end
    return loads


@kernel
def load_keys(rows: Rows, loads: Ints) -> npt.NDArray[np.uint64]:
    """Keys of load cells, see above, of the latencies of rows."""
    keys, found = np.empty(2 * len(rows) + 1, np.uint64), 0
    for i in range(len(rows)):
        # no branch: what does not count is overwritten by the next one
        cell = rows[i, PLACE] << 31 | axis_bin(max(loads[i], 1)) << 21
        keys[found] = np.uint64(cell | axis_bin(max(rows[i, IT], 1)) << 12 | max(rows[i, TTFT], 0))
        found += (loads[i] > 0) & (rows[i, IT] > 0) & (rows[i, TTFT] != UNKNOWN)
        keys[found] = np.uint64(
            cell | 1 << 30 | axis_bin(max(rows[i, OT], 1)) << 12 | max(rows[i, DECODE], 0)
        )
        found += (loads[i] > 0) & (rows[i, OT] > 0) & (rows[i, DECODE] != UNKNOWN)
    return keys[:found]


class Spread(NamedTuple):
    """A user's busiest hour with a model so far.

    hour, requests  of it; input, cached: its tokens
    instances       int64[n, 4]: instance (-1: none), requests, input, cached
    """

    hour: int
    requests: int
    input: int
    cached: int
    instances: Ints


@dataclass
class Counts:
    """What whole hours add up to.

    places   number of chosen models
    minutes  pieces of `periods_of`, by instance and minute: cells, sums
    hours    the same by user and hour
    loads    latencies by load, packed keys
    busiest  (place, user) -> earliest hour with most requests, at least BUSY
    scratch  column -> room that `periods_of` and `loads_of` need: as large as the codes so far, so it is not
             made anew for every few hours
    """

    places: int
    minutes: list[Piece] = field(default_factory=list)
    hours: list[Piece] = field(default_factory=list)
    loads: Cells = field(default_factory=Cells)
    busiest: dict[tuple[int, int], Spread] = field(default_factory=dict)
    scratch: dict[int, npt.NDArray[Any]] = field(default_factory=dict)

    def add(self, rows: Rows) -> None:
        """Count rows of whole hours, later than all before."""
        cells, sums, _ = self._periods(rows, INSTANCE, MINUTE_US, True)
        self.minutes.append((cells, sums))
        self.loads.add(load_keys(rows, loads_of(rows, self._room(LOADS, rows[:, INSTANCE], np.int64))))
        cells, sums, cell_of = self._periods(rows, USER, HOUR_US, False)
        self.hours.append((cells, sums))
        spread = spread_of(rows, cell_of, cells)
        spread = spread[np.argsort(spread[:, 0], kind="stable")]
        edges = np.flatnonzero(np.diff(spread[:, 0], prepend=-1, append=-1))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            cell = int(spread[low, 0])
            hour, place, user, requests = cells[cell].tolist()
            found = Spread(
                hour, requests, int(sums[cell, 0]), int(sums[cell, 1]), spread[low:high, 1:].copy()
            )
            self._offer((place, user), found)

    def _periods(
        self, rows: Rows, column: int, period_us: int, both: bool
    ) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
        where = self._room(column, rows[:, column], np.int32)
        return periods_of(rows, column, where, period_us, both)

    def _room(self, name: int, codes: Ints, kind: type[np.integer[Any]]) -> npt.NDArray[Any]:
        """Scratch with a row of places for each of these codes and all below."""
        held = self.scratch.get(name, np.zeros((0, self.places), kind))
        self.scratch[name] = grown(held, int(codes.max(initial=-1)) + 1)
        return self.scratch[name]

    def __getstate__(self) -> dict[str, object]:
        """What is stored: all but the scratch."""
        return self.__dict__ | {"scratch": {}}

    def _offer(self, key: tuple[int, int], spread: Spread) -> None:
        if key not in self.busiest or spread.requests > self.busiest[key].requests:
            self.busiest[key] = spread

    def follow(self, later: Counts) -> None:
        """Add the counts of later hours. Changes this one."""
        self.minutes += later.minutes
        self.hours += later.hours
        self.loads.merge(later.loads)
        for key, spread in later.busiest.items():
            self._offer(key, spread)
