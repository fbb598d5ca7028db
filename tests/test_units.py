"""Times at the edge: exact against fractions and the standard library's calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope import units
from servescope.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
unit_names = st.sampled_from(["s", "ms", "us", "ns"])
digits = st.text("0123456789", min_size=1, max_size=9)


@given(st.sampled_from(["", "-", "+"]), digits, st.text("0123456789", max_size=12), unit_names)
def test_numbers_are_exact_and_round_half_up(sign: str, whole: str, part: str, unit: str) -> None:
    text = f"{sign}{whole}.{part}" if part else f"{sign}{whole}"
    exact = Fraction(text) * units.NS_PER[unit]
    assert units.number_to_ns(text, unit) == floor(exact + Fraction(1, 2))


@pytest.mark.parametrize(
    "text", ["", "abc", "1_0", "١", "12O", "1,5", "nan", "inf", "-inf", "1e31", "0x10", "1e999999999"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|too large"):
        units.number_to_ns(text, "s")


def test_epoch_times_in_the_wrong_unit_are_still_numbers() -> None:
    assert units.number_to_ns("1731600000123", "s") == 1_731_600_000_123 * 10**9
    assert units.year_of(1_731_600_000_123 * 10**9) == 56842
    assert units.year_of(10**30) == 1970 + 10**21 // 31_556_952


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), unit_names)
def test_floats_agree_with_exact_numbers(values: list[float], unit: str) -> None:
    got, good = units.floats_to_ns(np.array(values), unit)
    assert good.all()
    for value, ns in zip(values, got.tolist(), strict=True):
        exact = Fraction(value) * units.NS_PER[unit]
        assert abs(ns - exact) <= max(1, abs(exact) / 2**52)


def test_floats_that_do_not_fit_are_marked() -> None:
    _, good = units.floats_to_ns(np.array([1.0, np.nan, np.inf, -np.inf, 1e300]), "s")
    assert good.tolist() == [True, False, False, False, False]


moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
offsets = st.none() | st.just("Z") | st.integers(-23 * 60 - 59, 23 * 60 + 59)


def offset_text(offset: int | str | None) -> str:
    if not isinstance(offset, int):
        return offset or ""
    return f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"


@given(moments, st.text("0123456789", max_size=9), st.sampled_from(" T"), offsets)
def test_calendar_times(moment: datetime, part: str, between: str, offset: int | str | None) -> None:
    moment = moment.replace(microsecond=0)
    text = f"{moment.strftime('%Y').zfill(4)}-{moment:%m-%d}{between}{moment:%H:%M:%S}"
    text += f".{part}" if part else ""
    zone = timezone(timedelta(minutes=offset)) if isinstance(offset, int) else UTC
    seconds = (moment.replace(tzinfo=zone) - EPOCH) // timedelta(seconds=1)
    expected = seconds * 10**9 + int(part.ljust(9, "0") or 0)
    assert units.calendar_to_ns(text + offset_text(offset)) == (expected, offset is not None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-05-12",
        "2024-02-30 00:00:00",
        "2024-05-12 24:00:00",
        "2024-05-12 00:00:60",
        "2024-05-12 00:00:00+24:00",
        "12/05/2024 00:00:00",
        "2024-05-12 00:00:00 PST",
        "２024-05-12 00:00:00",
    ],
)
def test_other_texts_are_no_calendar_times(text: str) -> None:
    with pytest.raises(ValueError, match="not a calendar time"):
        units.calendar_to_ns(text)


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_microseconds_round_half_up(values: list[int]) -> None:
    got = units.ns_to_us(np.array(values, np.int64)).tolist()
    assert got == [floor(Fraction(value, 1000) + Fraction(1, 2)) for value in values]


@given(st.integers(-(2**62), 2**62))
def test_iso_text_reads_back(ns: int) -> None:
    assert units.calendar_to_ns(units.iso_utc(ns)) == (ns, True)


def test_unknown_unit() -> None:
    with pytest.raises(UsageError, match='unknown time unit "sec"'):
        units.ns_per("sec")
