"""Columns of times written as text: decimal numbers and calendar times, exact and at once.

Arrow casts a whole column where every text has the plain layout; any other column goes value by
value through `units`, which says what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema, units
from servescope.formats.columns import Clock

if TYPE_CHECKING:
    from servescope.formats.columns import Caster
    from servescope.ledger import Ledger

FRACTION_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
_LOCAL = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?$"
_ZONED = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass
class Zones:
    """How many calendar times named a zone. Changed by `calendar_times`."""

    named: int = 0
    missing: int = 0

    def note(self, ledger: Ledger) -> None:
        """Note the times without a zone, which were read as UTC. Changes `ledger`."""
        if not self.named:
            ledger.note("no_time_zone", "no time zone in file, read as UTC", count=self.missing)
        else:
            ledger.note(
                "some_no_time_zone",
                "{n} time without a time zone, read as UTC",
                "{n} times without a time zone, read as UTC",
                count=self.missing,
            )


def decimal_times(
    clock: Clock, caster: Caster, field: str, values: Any, unit: str, *, required: bool = True
) -> npt.NDArray[np.int64]:
    """Times given as decimal texts in `unit`: int64[n] nanoseconds since `clock.base_ns`.

    values    Arrow strings[n]; blank or null is unknown: a fault if `required`, else null
    returns   exact; digits below a nanosecond round half up

    Changes `clock` (its base, by the first time) and `caster`.
    """
    texts = pc.ascii_trim_whitespace(values)
    known = pc.fill_null(pc.not_equal(texts, ""), False)
    some = len(values) if required else pc.sum(known).as_py() or 0
    ns = _decimal_ns(texts if some == len(values) else texts.filter(known), unit)
    fast = None if ns is None else _since_base(clock, ns)
    if fast is None:
        return clock.parsed(
            caster, field, values.to_pylist(), lambda text: units.number_to_ns(text, unit), required=required
        )
    if some == len(values):
        return fast
    out = np.full(len(values), schema.NULL_INT64, np.int64)
    out[known.to_numpy(zero_copy_only=False)] = fast
    return out


def _decimal_ns(values: Any, unit: str) -> npt.NDArray[np.int64] | None:
    """Nanoseconds of all texts, None where one needs a look."""
    digits = FRACTION_DIGITS[unit]
    if values.null_count:
        return None
    try:
        cast = pc.cast(values, pa.decimal128(38, digits))
    except pa.ArrowInvalid:
        return None
    words = np.frombuffer(cast.buffers()[1], np.int64, 2 * len(cast), 16 * cast.offset).reshape(-1, 2)
    if not np.array_equal(words[:, 1], words[:, 0] >> 63):
        return None  # beyond 64 bits of nanoseconds
    return words[:, 0]


def calendar_times(
    clock: Clock, caster: Caster, field: str, values: Any, zones: Zones, *, required: bool = True
) -> npt.NDArray[np.int64]:
    """Calendar times as texts: int64[n] nanoseconds since `clock.base_ns`, offsets applied.

    values  Arrow strings[n], as `units.calendar_to_ns` takes them; blank or null is unknown

    Changes `clock`, `caster` and `zones`.
    """
    for pattern, kind in ((_LOCAL, pa.timestamp("ns")), (_ZONED, pa.timestamp("ns", "UTC"))):
        ns = _calendar_ns(values, pattern, kind)
        fast = None if ns is None else _since_base(clock, ns)
        if fast is not None:
            zones.named += len(fast) * (kind.tz is not None)
            zones.missing += len(fast) * (kind.tz is None)
            return fast

    def parse(text: str) -> int:
        ns, named = units.calendar_to_ns(text)
        zones.named += named
        zones.missing += not named
        return ns

    return clock.parsed(caster, field, values.to_pylist(), parse, required=required)


def _calendar_ns(values: Any, pattern: str, kind: pa.DataType) -> npt.NDArray[np.int64] | None:
    if values.null_count or not pc.all(pc.match_substring_regex(values, pattern)).as_py():
        return None
    try:
        cast = pc.cast(values, kind)
    except pa.ArrowInvalid:
        return None  # a day that does not exist, or a year beyond 64 bits of nanoseconds
    ns: npt.NDArray[np.int64] = cast.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return ns


def _since_base(clock: Clock, ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    if not len(ns):
        return ns
    base = int(ns[0]) if clock.base_ns is None else clock.base_ns
    low, high = int(ns.min()), int(ns.max())
    if abs(base) >= 2**62 or max(high - base, base - low) >= 2**62:
        return None
    clock.base_ns = base
    return ns - base


def durations_ns(caster: Caster, field: str, values: Any, unit: str) -> npt.NDArray[np.int64]:
    """Durations given as decimal texts in `unit`: int64[n] nanoseconds, null where blank.

    A negative or unreadable value is a fault. Changes `caster`.
    """
    zero = Clock()
    zero.base_ns = 0
    ns = decimal_times(zero, caster, field, values, unit, required=False)
    for index in np.flatnonzero((ns < 0) & (ns != schema.NULL_INT64)):
        caster.bad(
            int(index),
            field,
            values[int(index)].as_py(),
            "a duration of at least 0 was expected",
            "bad_duration",
        )
    return ns


def end_of(times_ns: npt.NDArray[np.int64], durations: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ends of requests: int64[n] nanoseconds on the clock of `times_ns`, null without a duration."""
    unknown = (durations == schema.NULL_INT64) | (times_ns == schema.NULL_INT64)
    return np.where(unknown, schema.NULL_INT64, times_ns + np.where(unknown, 0, durations))
