"""A table of distinct texts as flat arrays: text -> code by order of first appearance, without the GIL.

Texts come as Arrow holds them: bytes one after the other, and where each ends. A dict of Python texts
would take the GIL and several times the memory (1.5 million user keys: 75 MB here, 250 MB there).

    held = Texts()
    codes = held.add(data, offsets, used)     # int32[n]; unknown texts get the next code
    codes = held.find(data, offsets)          # int32[n]; -1 for unknown ones

Slow twin: a dict (tests/kernels/test_texts.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import borrowing_kernel, kernel
from servescope.kernels.nulls import read_only
from servescope.kernels.prefetch import prefetch
from servescope.kernels.words import copy_bytes, hash_bytes, same_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Slots = npt.NDArray[np.uint64]
SMALLEST = 1 << 6
TOGETHER = 128  # texts looked up at once
# a slot: the upper half of the text's hash and its code + 1; 0: free
CODE = np.uint64(0xFFFFFFFF)
TAG = ~CODE
MISSING = -1
PIECE = 1 << 16  # texts handed over at a time
SPARE = 8  # bytes behind texts, for `copy_bytes`


def _longer(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The array with room behind it, which is not written to: a system gives it out when it is."""
    made = np.empty(room, array.dtype)
    made[: len(array)] = array
    return made


@borrowing_kernel
def _slot_of(
    slots: Slots, held: Bytes, ends: Ints, mixed: np.uint64, data: Bytes, low: int, high: int
) -> np.int64:
    """The slot that holds the text of this hash, or the free slot where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = mixed & mask
    while slots[slot] != 0:
        if not (slots[slot] ^ mixed) & TAG:
            code = np.int64(slots[slot] & CODE) - 1
            if same_bytes(held, ends[code], ends[code + 1], data, low, high):
                break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@borrowing_kernel
def _code_in(slots: Slots, mixed: np.uint64) -> int:
    """Code of the first text with the tag of a hash, MISSING where there is none."""
    mask = np.uint64(len(slots) - 1)
    slot = mixed & mask
    while slots[slot] != 0 and (slots[slot] ^ mixed) & TAG:
        slot = (slot + np.uint64(1)) & mask
    return int(np.int64(slots[slot] & CODE)) - 1


@kernel
def _find(
    slots: Slots, held: Bytes, ends: Ints, data: Bytes, offsets: npt.NDArray[np.int32], codes: Codes
) -> None:
    """Write codes of texts, MISSING for unknown ones.

    In passes, each of which asks for the memory that the next one reads (`kernels.prefetch`).
    """
    mixed = np.empty(TOGETHER, np.uint64)
    mask = np.uint64(len(slots) - 1)
    for first in range(0, len(codes), TOGETHER):
        many = min(TOGETHER, len(codes) - first)
        for i in range(many):
            mixed[i] = hash_bytes(data, offsets[first + i], offsets[first + i + 1])
            prefetch(slots, np.int64(mixed[i] & mask))
        for i in range(many):
            codes[first + i] = _code_in(slots, mixed[i])
            prefetch(ends, codes[first + i])
        for i in range(many):
            code = max(codes[first + i], 0)
            prefetch(held, ends[code])
            prefetch(held, ends[code + 1])
        for i in range(many):
            low, high = offsets[first + i], offsets[first + i + 1]
            code = max(codes[first + i], 0)
            if codes[first + i] >= 0 and not same_bytes(held, ends[code], ends[code + 1], data, low, high):
                slot = _slot_of(slots, held, ends, mixed[i], data, low, high)
                codes[first + i] = np.int64(slots[slot] & CODE) - 1


@kernel
def _add(
    slots: Slots,
    held: Bytes,
    ends: Ints,
    count: int,
    data: Bytes,
    offsets: npt.NDArray[np.int32],
    new: Ints,
    codes: Codes,
) -> int:
    """Enter the texts at the places `new` and write their codes: room must be there; new count."""
    mixed = np.empty(TOGETHER, np.uint64)
    mask = np.uint64(len(slots) - 1)
    for first in range(0, len(new), TOGETHER):
        places = new[first : first + TOGETHER]
        for i in range(len(places)):
            mixed[i] = hash_bytes(data, offsets[places[i]], offsets[places[i] + 1])
            prefetch(slots, np.int64(mixed[i] & mask))
        for i in range(len(places)):
            low, high = int(offsets[places[i]]), int(offsets[places[i] + 1])
            slot = _slot_of(slots, held, ends, mixed[i], data, low, high)
            if slots[slot] == 0:
                begin = int(ends[count])
                copy_bytes(data, low, high, held, begin)
                ends[count + 1] = begin + high - low
                count += 1
                slots[slot] = (mixed[i] & TAG) | np.uint64(count)
            codes[places[i]] = np.int64(slots[slot] & CODE) - 1
    return count


@kernel
def _refill(slots: Slots, held: Bytes, ends: Ints, count: int) -> None:
    """Enter the first texts, all distinct, into an empty table."""
    mixed = np.empty(TOGETHER, np.uint64)
    mask = np.uint64(len(slots) - 1)
    for first in range(0, count, TOGETHER):
        many = min(TOGETHER, count - first)
        for i in range(many):
            mixed[i] = hash_bytes(held, ends[first + i], ends[first + i + 1])
            prefetch(slots, np.int64(mixed[i] & mask))
        for i in range(many):
            slot = mixed[i] & mask
            while slots[slot] != 0:
                slot = (slot + np.uint64(1)) & mask
            slots[slot] = (mixed[i] & TAG) | np.uint64(first + i + 1)


@kernel
def _end(data: Bytes, offsets: npt.NDArray[np.int32], ending: Bytes, out: Bytes) -> None:
    """Write texts with an ending behind each, one after the other, to out, with bytes to spare."""
    at = 0
    for i in range(len(offsets) - 1):
        low, high = int(offsets[i]), int(offsets[i + 1])
        copy_bytes(data, low, high, out, at)
        at += high - low
        for j in range(len(ending)):
            out[at + j] = ending[j]
        at += len(ending)


def ended(data: Bytes, offsets: npt.NDArray[np.int32], ending: bytes) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """Texts with an ending behind each: bytes and offsets of the new ones. See `Texts.add`.

    Raises OverflowError where they are too long for offsets of 32 bits.
    """
    size = len(offsets) - 1
    total = int(offsets[-1]) - int(offsets[0]) + size * len(ending)
    if total >= 2**31:
        raise OverflowError("texts of 2 GB")
    out = np.empty(total + SPARE, np.uint8)
    _end(read_only(data), read_only(offsets), np.frombuffer(ending, np.uint8), out)
    more = np.arange(size + 1, dtype=np.int32) * np.int32(len(ending))
    return out[:total], offsets - offsets[0] + more


def pieces(data: Bytes, ends: Ints, first: int = 0) -> Iterator[tuple[int, Bytes, npt.NDArray[np.int32]]]:
    """Texts from number `first` on, as `Texts.add` and `find` take them: number of the first, bytes, offsets.

    data, ends  as of `Texts`, of any length: the offsets of a piece fit 32 bits
    """
    for low in range(first, len(ends) - 1, PIECE):
        some = ends[low : low + PIECE + 1]
        yield low, data[some[0] : some[-1]], (some - some[0]).astype(np.int32)


class Texts:
    """Distinct texts by code, see the module. Changed by `add`."""

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.zeros(SMALLEST, np.uint64)
        self._held = np.zeros(SMALLEST, np.uint8)
        self._ends = np.zeros(SMALLEST + 1, np.int64)

    def __len__(self) -> int:
        """Number of texts."""
        return self.count

    @property
    def ends(self) -> Ints:
        """int64[count + 1]: text i is `data[ends[i]:ends[i + 1]]`, a view."""
        return self._ends[: self.count + 1]

    @property
    def data(self) -> Bytes:
        """uint8[n], the texts in UTF-8 one after the other, a view."""
        return self._held[: self._ends[self.count]]

    def add(
        self, data: Bytes, offsets: npt.NDArray[np.int32], used: npt.NDArray[np.bool_] | None = None
    ) -> Codes:
        """Codes of texts, int32[n]; unknown ones get the next codes, those not `used` MISSING.

        data     uint8[m], UTF-8
        offsets  int32[n + 1], text i is data[offsets[i]:offsets[i + 1]]
        used     bool[n]; None: all
        """
        size = len(offsets) - 1
        data, offsets = read_only(data), read_only(offsets)
        codes = self.find(data, offsets)
        if used is not None and used.all():  # nearly always
            used = None
        if used is not None:
            codes[~used] = MISSING
        new = np.flatnonzero(codes == MISSING if used is None else used & (codes == MISSING))
        if len(new):
            self._reserve(size, int(offsets[-1]) - int(offsets[0]))
            self.count = _add(self._slots, self._held, self._ends, self.count, data, offsets, new, codes)
        return codes

    def find(self, data: Bytes, offsets: npt.NDArray[np.int32]) -> Codes:
        """Codes of texts as in `add`, int32[n], MISSING for unknown ones. Changes nothing."""
        codes = np.empty(len(offsets) - 1, np.int32)
        _find(self._slots, self._held, self._ends, read_only(data), read_only(offsets), codes)
        return codes

    def _reserve(self, texts: int, data_bytes: int) -> None:
        """Room for so many more."""
        most = self.count + texts
        if most >= len(self._ends):
            room = max(most, 2 * len(self._ends))
            self._ends = _longer(self._ends, room + 1)
        total = int(self._ends[self.count]) + data_bytes + SPARE
        if total > len(self._held):
            room = max(total, 2 * len(self._held))
            self._held = _longer(self._held, room)
        if 2 * most > len(self._slots):
            slots = len(self._slots)
            while 2 * most > slots:
                slots *= 2
            self._slots = np.zeros(slots, np.uint64)
            _refill(self._slots, self._held, self._ends, self.count)
