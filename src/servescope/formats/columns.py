"""From a source's values to typed columns, and a fault for each value that does not fit.

Every function takes a whole column, is vectorised where all is well, and looks at single values
only to say what is wrong. Faults are added to the chunk's; the first fault of a row wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema, units
from servescope.formats.format import fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.errors import Fault
    from servescope.formats.source import Source

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
UINT64_MAX = 2**64 - 1

Seen = dict[Any, tuple[str, int]]  # an id -> source and line of the first good row that has it


@dataclass
class Caster:
    """The rows under treatment: where faults go. Changed by every cast.

    source, lines  for messages
    faults         index -> first fault of that row
    """

    source: Source
    lines: npt.NDArray[np.int64]
    faults: dict[int, Fault]

    def bad(self, index: int, field: str, value: object, reason: str, rule: str) -> None:
        """Record a fault, unless the row has one. Changes `faults`."""
        if index not in self.faults:
            self.faults[index] = fault(self.source, self.lines[index], field, value, reason, rule=rule)


def refuse_repeats(caster: Caster, field: str, ids: Sequence[Any], seen: Seen) -> None:
    """A fault for each good row whose id an earlier good row has, of this source or one before.

    ids   one a row; None is no id
    seen  ids of the rows so far; changed
    """
    name, lines = caster.source.name, caster.lines.tolist()
    for index, own in enumerate(ids):
        if own is None or index in caster.faults:
            continue
        first = seen.setdefault(own, (name, lines[index]))
        if first != (name, lines[index]):
            where = f"line {first[1]}" if first[0] == name else f"{first[0]}:{first[1]}"
            caster.bad(index, field, own, f"already used at {where}", "repeated_id")


def counts(
    caster: Caster,
    field: str,
    values: Sequence[Any],
    *,
    least: int = 0,
    most: int = INT32_MAX,
    required: bool = False,
) -> npt.NDArray[np.int32]:
    """Token or item counts: int32[n], null sentinel where unknown.

    values    ints, floats, texts or None; integral decimals ("64.0") are integers, "" is unknown
    least     smallest value allowed (1 for input tokens: a request has at least one)
    most      largest value allowed
    required  whether unknown is a fault

    A value that is NaN, fractional, below `least` or above `most` is a fault.
    """
    out = _fast_ints(values)
    if out is None or (required and (out == schema.NULL_INT32).any()) or _outside(out, least, most):
        out = np.full(len(values), schema.NULL_INT32, np.int32)
        for index, value in enumerate(_plain(values)):
            try:
                number = _whole(value)
                if number is None and required:
                    raise ValueError("missing")
                if number is not None:
                    if number < least:
                        raise ValueError(_too_small(number, least, required))
                    if number > most:
                        raise ValueError(_too_large(most))
                    out[index] = number
            except ValueError as error:
                reason = str(error)
                missing = reason == "missing"
                caster.bad(
                    index, field, None if missing else value, reason, "missing" if missing else "bad_count"
                )
    return out


def _plain(values: Any) -> Any:
    return values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values


def _too_small(number: int, least: int, required: bool) -> str:
    if number == 0 and required:
        return "a request has at least one input token"
    return f"must be at least {least}"


def _too_large(most: int) -> str:
    return "does not fit in 32 bits" if most == INT32_MAX else f"must be at most {most}"


def _outside(out: npt.NDArray[np.int32], least: int, most: int) -> bool:
    return bool((((out < least) | (out > most)) & (out != schema.NULL_INT32)).any())


def _fast_ints(values: Any) -> npt.NDArray[np.int32] | None:
    """The column at once, None where any value needs a look."""
    if isinstance(values, np.ndarray):
        values = pa.array(values)
    elif not isinstance(values, (pa.Array, pa.ChunkedArray)):
        if not all(value is None or type(value) is int for value in values):
            return None
        try:
            values = pa.array(values, pa.int64())
        except (pa.ArrowInvalid, OverflowError):
            return None
    try:
        if pa.types.is_string(values.type):
            text = pc.utf8_trim_whitespace(values)
            if pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
                return None  # Arrow would read 0x10 as 16
            values = pc.cast(pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), pa.int64())
        elif pa.types.is_boolean(values.type):
            return None
        wide = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    low, high = pc.min_max(wide).values()
    if low.is_valid and (high.as_py() > INT32_MAX or low.as_py() <= schema.NULL_INT32):
        return None
    return np.ascontiguousarray(wide.fill_null(schema.NULL_INT32).to_numpy(zero_copy_only=False), np.int32)


def _whole(value: object) -> int | None:
    """A whole number, None for unknown; ValueError with the reason otherwise."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        raise ValueError("a whole number was expected")
    if isinstance(value, (int, np.integer)):
        return int(value)
    text = str(value).strip()
    if text.lower() in ("nan", "+nan", "-nan"):
        raise ValueError("not a number (NaN)")
    try:
        return int(text) if text.isascii() and "_" not in text else _fail()
    except ValueError:
        pass
    return _integral(text)


def _integral(text: str) -> int:
    try:
        number = float(text) if text.isascii() and "_" not in text else _fail()
    except ValueError:
        raise ValueError("a whole number was expected") from None
    if not np.isfinite(number) or abs(number) >= 2**53:
        raise ValueError("a whole number was expected")
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _fail() -> int:
    raise ValueError("a whole number was expected")


def seconds(
    caster: Caster, field: str, values: Sequence[Any], *, scale: float = 1.0
) -> npt.NDArray[np.float64]:
    """Durations in seconds: float64[n], NaN where unknown ("" or None).

    scale  seconds per unit of the source (0.001 for milliseconds)

    A negative, infinite or unreadable value is a fault.
    """
    fast = _fast_reals(values)
    if fast is not None:
        return fast * scale
    out = np.full(len(values), np.nan)
    for index, value in enumerate(_plain(values)):
        number = _real(value)
        if number is None:
            continue
        if not (0 <= number < np.inf):
            caster.bad(index, field, value, "a duration of at least 0 was expected", "bad_duration")
        else:
            out[index] = number * scale
    return out


def _fast_reals(values: Any) -> npt.NDArray[np.float64] | None:
    """The column at once, NaN for null; None where any value needs a look."""
    try:
        if not isinstance(values, (pa.Array, pa.ChunkedArray)):
            if not set(map(type, values)) <= {int, float, type(None)}:
                return None
            values = pa.array(values, pa.float64())
        elif pa.types.is_string(values.type):
            text = pc.ascii_trim_whitespace(values)
            values = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        elif not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return None
        real = pc.cast(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):
        return None
    known = real.drop_null().to_numpy(zero_copy_only=False)
    if not ((known >= 0) & (known < np.inf)).all():
        return None
    return np.asarray(real.fill_null(np.nan).to_numpy(zero_copy_only=False))


def _real(value: object) -> float | None:
    if hasattr(value, "as_py"):
        value = value.as_py()
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return -1.0
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return -1.0


class Clock:
    """Times of one source as nanoseconds since its first good row.

    Holds `base_ns` between pieces of a file: the first time, exact, of any size.
    """

    def __init__(self) -> None:
        self.base_ns: int | None = None

    def numbers(
        self, caster: Caster, field: str, values: Sequence[Any], unit: str, *, required: bool = True
    ) -> npt.NDArray[np.int64]:
        """Times given as numbers or decimal texts in `unit`: int64[n] since `base_ns`."""
        array = np.asarray(values) if not isinstance(values, (pa.Array, pa.ChunkedArray)) else None
        if array is not None and array.dtype.kind in "if" and array.size:
            fast = self._fast(array, unit)
            if fast is not None:
                return fast
        return self.parsed(
            caster, field, values, lambda text: units.number_to_ns(text, unit), required=required
        )

    def _fast(self, array: npt.NDArray[Any], unit: str) -> npt.NDArray[np.int64] | None:
        if array.dtype.kind == "i":
            if np.abs(array).max() > 9.2e18 / units.ns_per(unit):
                return None
            ns = array.astype(np.int64) * units.ns_per(unit)
        else:
            ns, good = units.floats_to_ns(array.astype(np.float64), unit)
            if not good.all():
                return None
        if self.base_ns is None:
            self.base_ns = int(ns[0])
        if abs(self.base_ns) > 2**62 or np.abs(ns).max() > 2**62:
            return None
        return ns - self.base_ns

    def parsed(
        self,
        caster: Caster,
        field: str,
        values: Sequence[Any],
        parse: Callable[[str], int],
        *,
        required: bool = True,
    ) -> npt.NDArray[np.int64]:
        """Times as texts through `parse` (text -> ns, ValueError with a reason): int64[n].

        An unknown value is a fault if `required`, else the null sentinel.
        """
        out = np.full(len(values), schema.NULL_INT64, np.int64)
        for index, value in enumerate(values):
            text = value.as_py() if hasattr(value, "as_py") else value
            if text is None or (isinstance(text, str) and not text.strip()):
                if required:
                    caster.bad(index, field, None, "missing", "missing")
                continue
            try:
                if isinstance(text, bool):
                    raise ValueError("not a time")
                ns = parse(text if isinstance(text, str) else repr(text))
            except ValueError as error:
                caster.bad(index, field, text, str(error), "bad_time")
                continue
            if self.base_ns is None:
                self.base_ns = ns
            if abs(ns - self.base_ns) >= 2**62:
                caster.bad(index, field, text, "more than 146 years from the first row", "bad_time")
                continue
            out[index] = ns - self.base_ns
        return out


def block_lists(
    caster: Caster,
    field: str,
    lists: Sequence[Sequence[int] | None],
    input_tokens: npt.NDArray[np.int32],
    block_tokens: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Block ids of all rows, and int32[n] how many each row has (-1: states none).

    The count must be input_tokens / block_tokens, rounded up; an id must fit 64 bits unsigned.
    """
    lengths = np.array([-1 if ids is None else len(ids) for ids in lists], np.int32)
    try:
        flat = np.array(list(chain.from_iterable(ids for ids in lists if ids is not None)), np.uint64)
    except (OverflowError, TypeError, ValueError):
        flat, lengths = _good_blocks(caster, field, lists, lengths)
    needed = -(-input_tokens.astype(np.int64) // block_tokens)
    known = (lengths >= 0) & (input_tokens != schema.NULL_INT32)
    for index in np.flatnonzero(known & (lengths != needed)):
        reason = (
            f"{lengths[index]} ids, {needed[index]} needed for {input_tokens[index]} tokens "
            f"at block size {block_tokens}"
        )
        caster.bad(int(index), field, None, reason, "block_count")
    return flat, lengths


def _good_blocks(
    caster: Caster, field: str, lists: Sequence[Sequence[int] | None], lengths: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """The blocks of rows whose ids all fit; the others become faults with their blocks set to none."""
    kept: list[int] = []
    for index, ids in enumerate(lists):
        wrong = [i for i in ids or () if type(i) is not int or not 0 <= i <= UINT64_MAX]
        if wrong:
            caster.bad(index, field, wrong[0], "does not fit in 64 bits unsigned", "block_id")
            lengths[index] = -1
        else:
            kept.extend(ids or ())
    return np.array(kept, np.uint64), lengths
