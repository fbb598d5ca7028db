"""Requests and gaps of a model in an hour: cells, and how millions of them are kept in few bytes.

A year has tens of millions of cells, most of them with a request or two. A cell takes 28 bytes as arrays
and from 2 on as coded: 7 bits of a number in a byte, models as differences, nothing that follows from the
rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.uint32]
WORST_BYTES = 40  # of a cell: 0, hour 5, model 5, requests 5, gaps 5, sum 5, squares 2 * 5


class Cells(NamedTuple):
    """Cells of (hour, model), by hour, then by model; gaps inside the hour, microseconds.

    A sum of gaps inside an hour is at most 3.6e9, the sum of their squares at most its square, 1.3e19:
    they fit 32 and 64 bits.

    hour, model           int32[n]
    requests, gaps, sums  uint32[n]
    squares               uint64[n]
    """

    hour: npt.NDArray[np.int32]
    model: npt.NDArray[np.int32]
    requests: Counts
    gaps: Counts
    sums: Counts
    squares: npt.NDArray[np.uint64]


class Coded(NamedTuple):
    """Cells as bytes, of which hours lie between these two."""

    data: Bytes
    cells: int
    first_hour: int
    last_hour: int


def new_cells(room: int) -> Cells:
    """Room for cells."""
    kinds = (np.int32, np.int32, np.uint32, np.uint32, np.uint32, np.uint64)
    return Cells._make(np.zeros(room, kind) for kind in kinds)


@kernel
def _put(data: Bytes, at: int, number: int) -> int:
    """Write a number of 0 or more, LEB128; where it ends."""
    while number >= 0x80:
        data[at] = np.uint8(number & 0x7F | 0x80)
        number >>= 7
        at += 1
    data[at] = np.uint8(number)
    return at + 1


@kernel
def _get(data: Bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    number = shift = 0
    while data[at] >= 0x80:
        number |= int(np.int64(data[at]) & 0x7F) << shift
        shift += 7
        at += 1
    return number | int(np.int64(data[at])) << shift, at + 1


@kernel
def _coded(cells: Cells, number: int) -> Bytes:
    """The first cells as bytes: at a new hour 0 and its distance, then distance of the model, requests, and
    as far as they are not known: gaps, their sum, high and low half of their squares."""
    data = np.empty(number * WORST_BYTES, np.uint8)
    at, last_hour, last_model = 0, 0, -1
    for i in range(number):
        hour, model = int(cells.hour[i]), int(cells.model[i])
        requests, gaps = int(np.int64(cells.requests[i])), int(np.int64(cells.gaps[i]))
        if i == 0 or hour != last_hour:
            at = _put(data, _put(data, at, 0), hour - last_hour)
            last_hour, last_model = hour, -1
        at = _put(data, at, model - last_model)
        last_model = model
        at = _put(data, at, requests)
        if requests > 1:
            at = _put(data, at, gaps)
        if gaps > 0:
            at = _put(data, at, int(np.int64(cells.sums[i])))
        if gaps > 1:
            at = _put(data, at, int(np.int64(cells.squares[i] >> np.uint64(32))))
            at = _put(data, at, int(np.int64(cells.squares[i] & np.uint64(0xFFFFFFFF))))
    return data[:at].copy()


@kernel
def _decoded(data: Bytes, cells: Cells) -> None:
    """Read cells, which are modified and 0 before."""
    at, hour, model = 0, 0, -1
    for i in range(len(cells.hour)):
        distance, at = _get(data, at)
        if distance == 0:
            distance, at = _get(data, at)
            hour, model = hour + distance, -1
            distance, at = _get(data, at)
        model += distance
        cells.hour[i], cells.model[i] = hour, model
        cells.requests[i], at = _get(data, at)
        if cells.requests[i] > 1:
            cells.gaps[i], at = _get(data, at)
        if cells.gaps[i] > 0:
            cells.sums[i], at = _get(data, at)
            cells.squares[i] = np.uint64(cells.sums[i]) * np.uint64(cells.sums[i])
        if cells.gaps[i] > 1:
            high, at = _get(data, at)
            low, at = _get(data, at)
            cells.squares[i] = np.uint64(high) << np.uint64(32) | np.uint64(low)


def coded(cells: Cells, number: int) -> Coded:
    """The first `number` cells, at least 1, as bytes."""
    return Coded(_coded(cells, number), number, int(cells.hour[0]), int(cells.hour[number - 1]))


def decoded(held: Coded) -> Cells:
    """The cells again."""
    cells = new_cells(held.cells)
    _decoded(held.data, cells)
    return cells


def cut(cells: Cells, low: int, high: int) -> Cells:
    """Some of the cells, as views."""
    return Cells._make(column[low:high] for column in cells)


def windows(parts: Iterator[Cells], most: int) -> Iterator[Cells]:
    """The cells in pieces of `most`, the last of up to so many: the same however the parts were cut."""
    held: list[Cells] = []
    cells = 0
    for part in parts:
        rest = part
        while cells + len(rest.hour) > most:
            held.append(cut(rest, 0, most - cells))
            rest = cut(rest, most - cells, len(rest.hour))
            yield _together(held)
            held, cells = [], 0
        held.append(rest)
        cells += len(rest.hour)
    yield _together(held)


def _together(parts: list[Cells]) -> Cells:
    return Cells._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
