"""Columns of times: the casts of whole columns say what `units` says of each value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema, units
from servescope.formats.columns import Caster, Clock
from servescope.formats.source import Source
from servescope.formats.times import Zones, calendar_times, decimal_times, durations_ns, end_of
from servescope.ledger import Ledger

NULL = schema.NULL_INT64


def caster(rows: int) -> Caster:
    return Caster(Source("x.csv", Path("x.csv")), np.arange(2, rows + 2), {})


numbers = st.decimals(-(10**6), 10**12, places=6).map(str) | st.sampled_from(
    ["0", "1731600000123", "1e3", " 7.5 ", ".5", "+2", "0.1234567895", "-0.0000000005"]
)
odd = st.sampled_from(["", " ", "abc", "nan", "1_0", "0x1", "99999999999999999999", "1e40"])


def checked(
    texts: list[str | None], got: list[int], faults: Caster, base: int | None, *, required: bool, unit: str
) -> None:
    for index, text in enumerate(texts):
        if text is None or not text.strip():
            assert (index in faults.faults) == required
            assert required or got[index] == NULL
            continue
        try:
            ns = units.number_to_ns(text, unit)
        except ValueError as error:
            assert faults.faults[index].reason == str(error)
            continue
        assert base is not None
        if abs(ns - base) >= 2**62:
            assert faults.faults[index].reason == "more than 146 years from the first row"
        else:
            assert index not in faults.faults
            assert base + got[index] == ns


@given(st.lists(numbers, min_size=1), st.sampled_from(["s", "ms", "us", "ns"]))
def test_plain_numbers(texts: list[str], unit: str) -> None:
    clock, faults = Clock(), caster(len(texts))
    got = decimal_times(clock, faults, "t", pa.array(texts), unit)
    checked(texts, got.tolist(), faults, clock.base_ns, required=True, unit=unit)


@given(st.lists(numbers | odd | st.none(), min_size=1), st.booleans())
def test_any_texts(texts: list[str | None], required: bool) -> None:
    clock, faults = Clock(), caster(len(texts))
    got = decimal_times(clock, faults, "t", pa.array(texts, pa.string()), "s", required=required)
    checked(texts, got.tolist(), faults, clock.base_ns, required=required, unit="s")


def test_the_base_holds_between_pieces() -> None:
    clock, faults = Clock(), caster(2)
    assert decimal_times(clock, faults, "t", pa.array(["10.5", "11"]), "s").tolist() == [0, 500_000_000]
    assert decimal_times(clock, faults, "t", pa.array(["10", "bad"]), "s").tolist()[0] == -500_000_000
    assert clock.base_ns == 10_500_000_000
    assert faults.faults[1].line == 3


layouts = st.sampled_from(
    [
        "2024-05-12 00:00:00",
        "2023-11-16 18:17:03.9799600",
        "2024-05-12T00:00:03Z",
        "2024-05-11 23:59:59.75-00:30",
        "2024-05-12 02:00:01.5+0200",
        "2024-05-12 02:00:01+02",
        "2024-05-12 02:00:01,123456789123 UTC",
        "1850-01-01 00:00:00",
        "2024-02-30 00:00:00",
        "2024-05-12",
        "",
        "x",
    ]
)


@given(st.lists(layouts, min_size=1))
def test_calendar_columns(texts: list[str]) -> None:
    clock, faults, zones = Clock(), caster(len(texts)), Zones()
    got = calendar_times(clock, faults, "t", pa.array(texts), zones)
    named = missing = 0
    for index, text in enumerate(texts):
        try:
            ns, has_zone = units.calendar_to_ns(text)
        except ValueError as error:
            assert faults.faults[index].reason == (str(error) if text else "missing")
            continue
        named += has_zone
        missing += not has_zone
        assert clock.base_ns is not None
        if abs(ns - clock.base_ns) >= 2**62:
            assert faults.faults[index].reason == "more than 146 years from the first row"
        else:
            assert index not in faults.faults
            assert clock.base_ns + int(got[index]) == ns
    assert (zones.named, zones.missing) == (named, missing)


def test_zone_notes() -> None:
    for zones, expected in [
        (Zones(0, 3), ["no time zone in file, read as UTC"]),
        (Zones(2, 1), ["1 time without a time zone, read as UTC"]),
        (Zones(2, 0), []),
    ]:
        ledger = Ledger()
        zones.note(ledger)
        assert ledger.texts() == expected


def test_durations_and_ends() -> None:
    faults = caster(5)
    got = durations_ns(faults, "d", pa.array(["3.5", "", None, "-1", "x"], pa.string()), "ms")
    assert got.tolist()[:3] == [3_500_000, NULL, NULL]
    assert faults.faults[3].reason == "a duration of at least 0 was expected"
    assert faults.faults[4].reason == "not a number"
    assert end_of(np.array([10, 20, NULL]), np.array([5, NULL, 5])).tolist() == [15, NULL, NULL]
