"""What gateway logs share: times of any spelling, counts of cached tokens, unknown zeros."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.errors import UsageError, shorten
from servescope.formats.columns import Clock
from servescope.units import calendar_to_ns, number_to_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.formats.columns import Caster
    from servescope.formats.format import Context

Ints = npt.NDArray[np.int32]
OPTIONAL = frozenset({"completed_ns", "ttft_s", "output_tokens", "cached_tokens", "user", "instance"})
OPTIONAL |= {"status", "session_key", "parent_key", "source_id", "endpoint", "model", "cache_scope"}
NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?")
EPOCH_DIGITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # digits before the point of a time since 1970


class LogTimes:
    """Times of one source, all on one clock: calendar texts, or numbers since 1970.

    The unit of a number is the declared one; else it follows from the number's size, which
    between September 2001 and the year 2286 fits one unit only. Anything else is refused.
    """

    def __init__(self, context: Context, name: str) -> None:
        self.clock = Clock()
        self._context = context
        self._name = name
        self._units: dict[str, str] = {}

    @property
    def base_ns(self) -> int:
        """See `Chunk.base_ns`."""
        return self.clock.base_ns or 0

    def column(
        self, caster: Caster, field: str, values: Sequence[Any], *, unit: str = "", required: bool = False
    ) -> npt.NDArray[np.int64]:
        """Times of one field: int64[n] ns since `base_ns`, null sentinel where unknown.

        unit  of numbers, where the source's specification fixes it

        Raises UsageError if the unit of a number is neither declared nor certain.
        """
        self._context.origin = "calendar"
        return self.clock.parsed(
            caster, field, values, lambda text: self._parse(field, text, unit), required=required
        )

    def _parse(self, field: str, text: str, unit: str) -> int:
        number = text.strip()
        if NUMBER.fullmatch(number):
            return number_to_ns(number, unit or self._unit(field, number))
        ns, zoned = calendar_to_ns(text)
        if not zoned:
            one, many = "{n} time names no zone; read as UTC", "{n} times name no zone; read as UTC"
            self._context.ledger.note("no_zone", one, many)
        return ns

    def _unit(self, field: str, number: str) -> str:
        declared = self._context.options.time_unit
        if declared:
            self._context.decide(f"{field} is in {declared} since 1970 (declared)")
            return declared
        digits = len(str(int(float(number)))) if "e" in number.lower() else len(number.split(".")[0])
        found = EPOCH_DIGITS.get(digits)
        known = self._units.setdefault(field, found or "")
        if not known:
            raise UsageError(
                f"{self._name}: the unit of {field} is not certain (first value {shorten(number)}). "
                "Declare it with --time-unit s, ms, us or ns."
            )
        if found != known:
            raise ValueError(f"not a time in {known} since 1970, as the rows before it")
        self._context.decide(
            f"{field} is in {known} since 1970 (its size fits no other unit from 2001 to 2286)"
        )
        return known


def end_times(
    caster: Caster, field: str, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The ends; an end before its start is a fault."""
    for index in np.flatnonzero((ends != schema.NULL_INT64) & (ends < starts)):
        caster.bad(int(index), field, None, "the end is before the start", "end_before_start")
    return ends


def unknown_zeros(context: Context, caster: Caster, inputs: Ints, outputs: Ints) -> tuple[Ints, Ints]:
    """Counts with 0 input tokens made unknown, output 0 beside them too: nothing was counted.

    A request has at least one input token; gateways write 0 where no usage was reported.
    """
    zero = inputs == 0
    for index in np.flatnonzero(zero):
        if int(index) not in caster.faults:
            context.ledger.note(
                "no_usage",
                "{n} row states 0 input tokens, so its usage was not reported; its counts are unknown",
                "{n} rows state 0 input tokens, so their usage was not reported; their counts are unknown",
                line=int(caster.lines[index]),
            )
    null = np.int32(schema.NULL_INT32)
    return np.where(zero, null, inputs), np.where(zero & (outputs == 0), null, outputs)


def known(values: Ints) -> Ints:
    """The counts with unknown ones as 0, to be added up."""
    return np.where(values == schema.NULL_INT32, np.int32(0), values)


def note_cached(context: Context, caster: Caster, inputs: Ints, cached: Ints) -> None:
    """Note rows with more cached than input tokens: their counts cannot both be right."""
    null = schema.NULL_INT32
    for index in np.flatnonzero((inputs != null) & (cached != null) & (cached > inputs)):
        if int(index) not in caster.faults:
            context.ledger.note(
                "cached_exceeds_input",
                "{n} row states more cached than input tokens; both are kept as stated",
                "{n} rows state more cached than input tokens; both are kept as stated",
                line=int(caster.lines[index]),
            )


def first_text(*values: Any) -> str | None:
    """The first value that is a text with something in it (numbers become texts)."""
    for value in values:
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return None
