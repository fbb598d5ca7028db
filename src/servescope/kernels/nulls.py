"""Arrow's values beside a bitmap of what is known, as arrays in which a sentinel stands for null.

A bitmap is uint8[n], bit i of it (the lowest of a byte first) says whether value i is known.

Slow twin: a list with None in it (tests/kernels/test_nulls.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Bits = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as the kernels know it: Arrow's may be read-only, and one kind is compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


def _unpacked(bits: Bits, offset: int, rows: int) -> Bits:
    """A byte for each bit: with bits, loops over rows would branch."""
    return np.unpackbits(bits, count=offset + rows, bitorder="little")[offset:]


@kernel
def _fill(values: npt.NDArray[Any], known: Bits, null: Any) -> None:
    """Write `null` where values are not known."""
    for i in range(len(values)):
        values[i] = values[i] if known[i] else null


def fill(values: npt.NDArray[Any], bits: Bits, offset: int, null: float) -> None:
    """Write `null` where values, int32[n], int64[n] or float64[n], modified, are not known.

    bits    uint8[m]
    offset  bit of the first value
    """
    _fill(values, _unpacked(bits, offset, len(values)), values.dtype.type(null))


def filled(values: npt.NDArray[Any], bits: Bits, offset: int, null: float) -> npt.NDArray[Any]:
    """A copy of values with `null` where they are not known. As `fill`."""
    out = values.copy()
    fill(out, bits, offset, null)
    return out


@kernel
def _narrow(values: Ints, out: Codes) -> int:
    """Copy values to out; not 0 where one does not fit."""
    lost = 0
    for i in range(len(values)):
        out[i] = np.int32(values[i])
        lost |= values[i] ^ out[i]
    return lost


@kernel
def _narrow_known(values: Ints, known: Bits, null: int, out: Codes) -> int:
    """As `_narrow`, `null` for values that are not known."""
    lost = 0
    for i in range(len(values)):
        value = values[i] if known[i] else np.int64(null)
        out[i] = np.int32(value)
        lost |= value ^ out[i]
    return lost


def narrowed(values: Ints, bits: Bits | None, offset: int, null: int) -> Codes | None:
    """Values, int64[n], as int32[n]; None where one that is known does not fit. Otherwise as `filled`."""
    out = np.empty(len(values), np.int32)
    if bits is None:
        lost = _narrow(read_only(values), out)
    else:
        lost = _narrow_known(read_only(values), _unpacked(bits, offset, len(values)), null, out)
    return None if lost else out


@kernel
def _map(indices: npt.NDArray[np.uint32], mapping: Codes, out: Codes) -> None:
    """Look each index up in mapping."""
    for i in range(len(indices)):
        out[i] = mapping[indices[i]]


@kernel
def _map_known(indices: npt.NDArray[np.uint32], known: Bits, mapping: Codes, out: Codes) -> None:
    """As `_map`, the last entry of mapping where the index is not known."""
    last = np.uint32(len(mapping) - 1)
    for i in range(len(indices)):
        out[i] = mapping[indices[i] if known[i] else last]


def mapped(indices: npt.NDArray[np.uint32], bits: Bits | None, offset: int, mapping: Codes) -> Codes:
    """Each index looked up: int32[n].

    indices  uint32[n], in range where known
    bits     uint8[m], None: all are known
    offset   bit of the first index
    mapping  int32[k + 1], its last entry is for null
    """
    out = np.empty(len(indices), np.int32)
    if bits is None:
        _map(read_only(indices), mapping, out)
    else:
        _map_known(read_only(indices), _unpacked(bits, offset, len(indices)), mapping, out)
    return out


@kernel
def _look_up(values: Codes, codes: Codes, out: Codes) -> None:
    """Write values of codes, the last for a code below 0."""
    last = len(values) - 1
    for i in range(len(codes)):
        out[i] = values[codes[i] if codes[i] >= 0 else last]


def looked_up(values: Codes, codes: npt.NDArray[Any]) -> Codes:
    """Values by code, int32[k + 1], of codes, int32[n], all below k; the last value for a code below 0."""
    out = np.empty(len(codes), np.int32)
    _look_up(values, codes, out)
    return out


@kernel
def _count(indices: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64]) -> None:
    """Count indices in counts, modified."""
    for i in range(len(indices)):
        counts[indices[i]] += 1


@kernel
def _count_known(indices: npt.NDArray[np.uint32], known: Bits, counts: npt.NDArray[np.int64]) -> None:
    """As `_count`, those that are not known in the last place of counts."""
    last = np.uint32(len(counts) - 1)
    for i in range(len(indices)):
        counts[indices[i] if known[i] else last] += 1


def counted(
    indices: npt.NDArray[np.uint32], bits: Bits | None, offset: int, size: int
) -> npt.NDArray[np.int64]:
    """How often each of 0 … size - 1 stands in indices: int64[size]. Otherwise as `mapped`."""
    counts = np.zeros(size + 1, np.int64)
    if bits is None:
        _count(read_only(indices), counts)
    else:
        _count_known(read_only(indices), _unpacked(bits, offset, len(indices)), counts)
    return counts[:size]


@kernel
def _tally(rows: Ints, codes: Codes, counts: Ints) -> None:
    """Add counts to rows by code, none for a code below 0."""
    for i in range(len(codes)):
        if codes[i] >= 0:
            rows[codes[i]] += counts[i]


def tally(rows: Ints, codes: Codes, counts: Ints) -> None:
    """Add counts, int64[n], to rows, int64[k], modified, by their codes, int32[n]; below 0: to none."""
    _tally(rows, codes, counts)
