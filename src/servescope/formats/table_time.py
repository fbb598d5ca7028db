"""How a table's times are written: a declared unit, calendar text, or a Parquet timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from servescope import units
from servescope.errors import DataError, UsageError, shorten
from servescope.formats.times import Zones, calendar_times, decimal_times

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from servescope.formats.columns import Caster, Clock
    from servescope.formats.format import Context
    from servescope.formats.source import Source

EPOCH_FROM_NS = 10**17  # 1e8 s: a trace-relative clock of three years, or a date from 1973 on
FAR_YEAR = 2100


@dataclass(frozen=True)
class TimeRule:
    """How to read a time column.

    unit  of numbers; None: calendar texts
    """

    unit: str | None


def decide_rule(source: Source, context: Context, column: str, values: Any) -> TimeRule:
    """The rule for a source's times, by the option and the first value; sets the origin.

    values  the column's first values as in `table_pieces.Piece`

    Raises UsageError where the unit is neither declared nor plain from the values, DataError
    where sources of one trace differ. Changes `context`.
    """
    if isinstance(values, pa.Array) and pa.types.is_timestamp(values.type):
        if values.type.tz is None:
            context.ledger.note("no_time_zone", "no time zone in file, read as UTC")
        return _ruled(source, context, column, "calendar", TimeRule(values.type.unit), "timestamps (Parquet)")
    shown = _first(values)
    declared = context.options.time_unit
    calendar = shown is not None and _is_calendar(shown)
    if not declared and not calendar:
        raise UsageError(
            f'{source.name}: the unit of column "{column}" is not declared; its first value is '
            f"{shorten(shown) if shown else 'empty'}. Pass --time-unit s, ms, us or ns "
            "(calendar times like 2024-05-12 09:30:00 need none)."
        )
    if declared and calendar:
        raise UsageError(
            f'{source.name}: column "{column}" holds calendar times (its first value is '
            f"{shorten(shown)}); leave --time-unit out."
        )
    if calendar:
        return _ruled(source, context, column, "calendar", TimeRule(None), "calendar time, offsets applied")
    assert declared
    return _numbers(source, context, column, declared, values)


def _numbers(source: Source, context: Context, column: str, unit: str, values: Any) -> TimeRule:
    first_ns = _first_number(values, unit)
    if first_ns < EPOCH_FROM_NS:
        return _ruled(source, context, column, "relative", TimeRule(unit), f"in {unit} (declared), relative")
    year = units.year_of(first_ns)
    if first_ns >= 2**62 * units.NS_PER_US:
        raise DataError(
            f'{source.name}: the first time in column "{column}" is in the year {year:,}, beyond what '
            f"the trace's clock can hold. The unit is hardly {unit}; declare another --time-unit."
        )
    if year > FAR_YEAR:
        context.ledger.note(
            "far_future", f"the dates are in the year {year}, far in the future; is the time unit {unit}?"
        )
    text = f"in {unit} (declared) since 1970 UTC, as its first value is at least 1e8 s"
    return _ruled(source, context, column, "calendar", TimeRule(unit), text)


def _ruled(source: Source, context: Context, column: str, origin: str, rule: TimeRule, text: str) -> TimeRule:
    if context.state.setdefault("table_origin", origin) != origin:
        raise DataError(
            f'{source.name}: column "{column}" is {text}, which differs from the sources before it. '
            "Read them one by one."
        )
    context.origin = origin
    context.decide(f'arrival is column "{column}", {text}')
    return rule


def read_times(
    rule: TimeRule, clock: Clock, caster: Caster, column: str, values: Any, zones: Zones, *, required: bool
) -> npt.NDArray[np.int64]:
    """Times of one piece: int64[n] nanoseconds since `clock.base_ns`. Changes clock, caster, zones."""
    texts = as_texts(values)
    if rule.unit is None:
        return calendar_times(clock, caster, column, texts, zones, required=required)
    return decimal_times(clock, caster, column, texts, rule.unit, required=required)


def as_texts(values: Any) -> pa.Array:
    """A column of numbers or texts as Arrow strings; numbers by their shortest exact text."""
    if not isinstance(values, pa.Array):
        kinds = set(map(type, values))
        if kinds == {float}:  # Arrow writes a double as briefly as repr does, only faster
            return pc.cast(pa.array(values, pa.float64()), pa.string())
        return pa.array([v if v is None or isinstance(v, str) else repr(v) for v in values], pa.string())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    try:
        return pc.cast(values, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([None if v is None else str(v) for v in values.to_pylist()], pa.string())


def _first(values: Any) -> str | None:
    """The first value that is not blank."""
    known = (text for text in as_texts(values).to_pylist() if text and text.strip())
    return next(known, None)


def _first_number(values: Any, unit: str) -> int:
    """Nanoseconds of the first value that is a number, 0 if none is."""
    for text in as_texts(values).to_pylist():
        try:
            return units.number_to_ns(text or "", unit)
        except ValueError:
            continue
    return 0


def _is_calendar(text: str) -> bool:
    try:
        units.calendar_to_ns(text)
    except ValueError:
        return False
    return True
