"""A table of distinct texts as flat arrays: text -> code by order of first appearance, without the GIL.

Texts come as Arrow holds them: bytes one after the other, and where each ends. A dict of Python texts
would take the GIL and several times the memory (1.5 million user keys: 75 MB here, 250 MB there).

    held = Texts()
    codes = held.add(data, offsets, used)     # int32[n]; unknown texts get the next code
    codes = held.find(data, offsets)          # int32[n]; -1 for unknown ones

Slow twin: a dict (tests/kernels/test_texts.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
SMALLEST = 1 << 6
MISSING = -1


@kernel
def _hash(data: Bytes, low: int, high: int) -> np.uint64:
    """Hash of the bytes low … high - 1, eight at a time."""
    mixed = np.uint64(high - low) * np.uint64(0x9E3779B97F4A7C15)
    while low + 8 <= high:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[low + i]) << np.uint64(8 * i)
        mixed = (mixed ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
        low += 8
    word = np.uint64(0)
    while low < high:
        word = word << np.uint64(8) | np.uint64(data[low])
        low += 1
    mixed = (mixed ^ word) * np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def _same(held: Bytes, begin: int, end: int, data: Bytes, low: int, high: int) -> bool:
    """Whether held[begin:end] and data[low:high] are the same bytes."""
    if end - begin != high - low:
        return False
    different = np.uint8(0)
    for i in range(high - low):  # to the end: short loops without a way out become vector code
        different |= held[begin + i] ^ data[low + i]
    return bool(different == 0)


@kernel
def _slot_of(
    slots: Codes, hashes: npt.NDArray[np.uint64], held: Bytes, ends: Ints, data: Bytes, low: int, high: int
) -> tuple[np.int64, np.uint64]:
    """The slot that holds a text, or the free slot where it belongs, and the text's hash."""
    mask = np.uint64(len(slots) - 1)
    mixed = _hash(data, low, high)
    slot = mixed & mask
    while slots[slot] != 0:
        code = slots[slot] - 1
        if hashes[code] == mixed and _same(held, ends[code], ends[code + 1], data, low, high):
            break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot), mixed


@kernel
def _find(
    slots: Codes,
    hashes: npt.NDArray[np.uint64],
    held: Bytes,
    ends: Ints,
    data: Bytes,
    offsets: npt.NDArray[np.int32],
) -> Codes:
    """Codes of texts, MISSING for unknown ones.

    In passes, each of which waits for one kind of memory only: in a large table nearly every look is a
    cache miss, and misses of different texts overlap where nothing depends on them (three times as
    fast for 10,000 texts in a table of a million).
    """
    size = len(offsets) - 1
    mask = np.uint64(len(slots) - 1)
    codes = np.empty(size, np.int32)
    begins = np.empty(size, np.int64)
    mixed = np.empty(size, np.uint64)
    for i in range(size):
        mixed[i] = _hash(data, offsets[i], offsets[i + 1])
    for i in range(size):
        codes[i] = slots[mixed[i] & mask] - 1
    for i in range(size):
        begins[i] = ends[max(codes[i], 0)]
    for i in range(size):
        if codes[i] >= 0 and not _same(held, begins[i], ends[codes[i] + 1], data, offsets[i], offsets[i + 1]):
            slot, _ = _slot_of(slots, hashes, held, ends, data, offsets[i], offsets[i + 1])
            codes[i] = slots[slot] - 1
    return codes


@kernel
def _add(
    slots: Codes,
    hashes: npt.NDArray[np.uint64],
    held: Bytes,
    ends: Ints,
    count: int,
    data: Bytes,
    offsets: npt.NDArray[np.int32],
    used: npt.NDArray[np.bool_],
    codes: Codes,
) -> int:
    """Codes of used texts (written to codes), unknown ones entered: room must be there; new count."""
    for i in range(len(codes)):
        if not used[i]:
            continue
        low, high = offsets[i], offsets[i + 1]
        slot, mixed = _slot_of(slots, hashes, held, ends, data, low, high)
        if slots[slot] == 0:
            begin = ends[count]
            for at in range(high - low):
                held[begin + at] = data[low + at]
            ends[count + 1] = begin + high - low
            hashes[count] = mixed
            count += 1
            slots[slot] = count
        codes[i] = slots[slot] - 1
    return count


@kernel
def _refill(slots: Codes, hashes: npt.NDArray[np.uint64], count: int) -> None:
    """Enter the first texts, all distinct, into an empty table."""
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        slot = hashes[code] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code + 1


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as the kernels know it: Arrow's are read-only, and one kind is compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


@kernel
def _count(indices: Codes, counts: Ints) -> None:
    """Count indices in counts, modified."""
    for i in range(len(indices)):
        counts[indices[i]] += 1


def count_codes(indices: Codes, size: int) -> Ints:
    """How often each of 0 … size - 1 stands in indices, int32[n]; `size` itself stands for null."""
    counts = np.zeros(size + 1, np.int64)
    _count(_read_only(indices.astype(np.int32, copy=False)), counts)
    return counts[:size]


class Texts:
    """Distinct texts by code, see the module. Changed by `add`."""

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.zeros(SMALLEST, np.int32)
        self._hashes = np.zeros(SMALLEST, np.uint64)
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
        data, offsets = _read_only(data), _read_only(offsets)
        codes = self.find(data, offsets)
        if used is not None:
            codes[~used] = MISSING
        new = codes == MISSING if used is None else used & (codes == MISSING)
        if new.any():
            self._reserve(size, int(offsets[-1]) - int(offsets[0]))
            self.count = _add(
                self._slots, self._hashes, self._held, self._ends, self.count, data, offsets, new, codes
            )
        return codes

    def find(self, data: Bytes, offsets: npt.NDArray[np.int32]) -> Codes:
        """Codes of texts as in `add`, int32[n], MISSING for unknown ones. Changes nothing."""
        return _find(self._slots, self._hashes, self._held, self._ends, _read_only(data), _read_only(offsets))

    def _reserve(self, texts: int, data_bytes: int) -> None:
        """Room for so many more."""
        most = self.count + texts
        if most > len(self._hashes):
            room = max(most, 2 * len(self._hashes))
            self._hashes = np.concatenate([self._hashes, np.zeros(room - len(self._hashes), np.uint64)])
            self._ends = np.concatenate([self._ends, np.zeros(room + 1 - len(self._ends), np.int64)])
        total = int(self._ends[self.count]) + data_bytes
        if total > len(self._held):
            room = max(total, 2 * len(self._held))
            self._held = np.concatenate([self._held, np.zeros(room - len(self._held), np.uint8)])
        if 2 * most > len(self._slots):
            slots = len(self._slots)
            while 2 * most > slots:
                slots *= 2
            self._slots = np.zeros(slots, np.int32)
            _refill(self._slots, self._hashes, self.count)
