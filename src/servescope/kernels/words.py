"""Words of 64 bits: eight bytes at once from any place of an array, and the lowest bit that is set."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from servescope.kernels.jit import borrowing_kernel, inlined


def _load(typing_context: Any, data: Any, at: Any) -> Any:
    """The word at data[at], in the machine's order, aligned or not: one instruction, not eight."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), code


def _store(typing_context: Any, data: Any, at: Any, word: Any) -> Any:
    """Write a word to data[at], aligned or not."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(data, types.int64, types.uint64), code


def _count_zeros(typing_context: Any, word: Any) -> Any:
    """The processor's own instruction for it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


_load_word: Any = intrinsic(_load)
_store_word: Any = intrinsic(_store)
_trailing_zeros: Any = intrinsic(_count_zeros)


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Place of the lowest bit that is set, 0 … 63; the word is not 0."""
    place: int = _trailing_zeros(np.uint64(word))
    return place


@borrowing_kernel
def word_at(data: npt.NDArray[np.uint8], at: int) -> np.uint64:
    """The bytes data[at:at + 8] as a number; all eight must be there."""
    word: np.uint64 = _load_word(data, at)
    return word


@borrowing_kernel
def put_word(data: npt.NDArray[np.uint8], at: int, word: np.uint64) -> None:
    """Write a number to data[at:at + 8], so that `word_at` finds it; there must be room for all eight."""
    _store_word(data, at, word)


@borrowing_kernel
def copy_bytes(data: npt.NDArray[np.uint8], low: int, high: int, out: npt.NDArray[np.uint8], at: int) -> None:
    """Copy data[low:high] to out[at:], in words: up to 7 bytes behind them change, too, and must be there."""
    while low < high and low + 8 <= len(data):
        put_word(out, at, word_at(data, low))
        at, low = at + 8, low + 8
    while low < high:
        out[at] = data[low]
        at, low = at + 1, low + 1


@borrowing_kernel
def same_bytes(
    held: npt.NDArray[np.uint8], begin: int, end: int, data: npt.NDArray[np.uint8], low: int, high: int
) -> bool:
    """Whether held[begin:end] and data[low:high] are the same bytes."""
    if end - begin != high - low:
        return False
    if high - low < 8:
        while low < high and held[begin] == data[low]:
            begin += 1
            low += 1
        return low == high
    different = word_at(held, end - 8) ^ word_at(data, high - 8)  # may overlap the one before
    while low < high - 8:
        different |= word_at(held, begin) ^ word_at(data, low)
        low += 8
        begin += 8
    return bool(different == 0)


@borrowing_kernel
def hash_bytes(data: npt.NDArray[np.uint8], low: int, high: int) -> np.uint64:
    """Hash of data[low:high]; not the same on machines of another byte order."""
    mixed = np.uint64(high - low) * np.uint64(0x9E3779B97F4A7C15)
    word = np.uint64(0)
    if high - low >= 8:
        while low < high - 8:
            mixed = (mixed ^ word_at(data, low)) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(32)
            low += 8
        word = word_at(data, high - 8)
    else:
        while low < high:
            word = word << np.uint64(8) | np.uint64(data[low])
            low += 1
    mixed = (mixed ^ word) * np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(29))
