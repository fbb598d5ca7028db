"""Casting: whole columns at once agree with one value at a time, and nothing is guessed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema, units
from servescope.formats.columns import INT32_MAX, Caster, Clock, block_lists, counts, seconds
from servescope.formats.source import Source

NULL = schema.NULL_INT32


def caster(rows: int) -> Caster:
    return Caster(Source("x.csv", Path("x.csv")), np.arange(2, rows + 2), {})


def whole(text: str) -> int | str | None:
    """The slow twin: a whole number, None for unknown, "bad" for anything else."""
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or "_" in text:
        return "bad"
    try:
        number = float(text)
    except ValueError:
        return "bad"
    if math.isfinite(number) and number == int(number) and abs(number) < 2**53:
        return int(number)
    return "bad"


blanks_and_numbers = ["", "  ", "0", "1", "-3", " 12 ", "007", "+5", "64.0", "64.5", "8e2", "2147483647"]
odd_texts = [
    "NaN",
    "inf",
    "12O",
    "1,024",
    "1_0",
    "0x10",
    "١٢",
    "2147483648",
    "-2147483648",
    "1e400",
    "9" * 20,
]
texts = st.sampled_from([*blanks_and_numbers, *odd_texts]) | st.integers(-10, 10**6).map(str)


@given(st.lists(texts), st.sampled_from([0, 1]), st.booleans(), st.sampled_from([INT32_MAX, 500]))
def test_counts_of_texts(values: list[str], least: int, required: bool, most: int) -> None:
    for given_values in (values, pa.array(values, pa.string())):
        faults = caster(len(values))
        got = counts(faults, "n", given_values, least=least, most=most, required=required).tolist()
        for index, value in enumerate(values):
            expected = whole(value)
            good = isinstance(expected, int) and least <= expected <= most
            if expected is None:
                assert (index in faults.faults) == required
                assert got[index] == NULL
            elif good:
                assert index not in faults.faults
                assert got[index] == expected
            else:
                assert faults.faults[index].rule == "bad_count"
                assert faults.faults[index].line == index + 2


@given(st.lists(st.none() | st.integers(-5, 2**40) | st.floats() | st.booleans()))
def test_counts_of_numbers(values: list[Any]) -> None:
    faults = caster(len(values))
    got = counts(faults, "n", values).tolist()
    for index, value in enumerate(values):
        good = not isinstance(value, bool) and value is not None and value == value
        good = good and math.isfinite(value) and value == int(value) and 0 <= value <= INT32_MAX
        assert (index in faults.faults) == (value is not None and not good)
        if index not in faults.faults:
            assert got[index] == (NULL if value is None else int(value))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array([1, None, 3], pa.uint8()),
        pa.array([1.0, None, 3.0]),
        pa.array(["1", None, " 3"]),
        pa.chunked_array([pa.array([1, None]), pa.array([3])]),
    ],
)
def test_counts_of_arrow_columns(array: Any) -> None:
    faults = caster(3)
    assert counts(faults, "n", array).tolist() == [1, NULL, 3]
    assert faults.faults == {}


def test_a_boolean_is_no_count() -> None:
    faults = caster(2)
    counts(faults, "n", pa.array([True, False]))
    assert set(faults.faults) == {0, 1}


def test_the_first_fault_of_a_row_wins_and_shows_the_value() -> None:
    faults = caster(1)
    counts(faults, "a", pa.array(["12O"]))
    counts(faults, "b", pa.array(["x"]))
    assert (faults.faults[0].field, faults.faults[0].value) == ("a", '"12O"')


@pytest.mark.parametrize(
    ("value", "least", "reason"),
    [
        ("0", 1, "a request has at least one input token"),
        ("-3", 1, "must be at least 1"),
        ("64.5", 1, "not a whole number"),
        ("NaN", 1, "not a number (NaN)"),
        ("", 1, "missing"),
        ("2147483648", 1, "does not fit in 32 bits"),
    ],
)
def test_reasons(value: str, least: int, reason: str) -> None:
    faults = caster(1)
    counts(faults, "n", [value], least=least, required=True)
    assert faults.faults[0].reason == reason


reals = (
    st.none() | st.integers(-1, 2**70) | st.floats() | st.sampled_from(["1.5", "", " 2 ", "nan", "-1", "1_0"])
)


@given(st.lists(reals) | st.lists(st.none() | st.floats(0, 1e9)), st.sampled_from([1.0, 0.001]))
def test_seconds(values: list[Any], scale: float) -> None:
    faults = caster(len(values))
    got = seconds(faults, "d", values, scale=scale)
    for index, value in enumerate(values):
        if value is None or value == "":
            assert np.isnan(got[index])
            assert index not in faults.faults
        elif value in ("nan", "-1", "1_0") or not 0 <= float(value) < math.inf:
            assert faults.faults[index].reason == "a duration of at least 0 was expected"
        else:
            assert got[index] == float(value) * scale
            assert index not in faults.faults


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["1.5", "", None, " 2"]),
        pa.array([1.5, None, None, 2.0]),
        pa.chunked_array([pa.array([1.5, None]), pa.array([None, 2.0])]),
    ],
)
def test_seconds_of_arrow_columns(array: Any) -> None:
    faults = caster(4)
    assert [None if one != one else one for one in seconds(faults, "d", array).tolist()] == [
        1.5,
        None,
        None,
        2.0,
    ]
    assert faults.faults == {}
    bad = caster(3)
    seconds(bad, "d", pa.array([0.0, float("nan"), -1.0]))
    assert set(bad.faults) == {1, 2}


@given(st.lists(st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6), min_size=1))
def test_clock_of_numbers(values: list[float]) -> None:
    clock, faults = Clock(), caster(len(values))
    got = clock.numbers(faults, "t", values, "ms")
    assert faults.faults == {}
    assert clock.base_ns is not None
    for value, ns in zip(values, got.tolist(), strict=True):
        assert abs(clock.base_ns + ns - units.number_to_ns(repr(value), "ms")) <= 1


def test_clock_far_beyond_64_bits_keeps_differences() -> None:
    clock, faults = Clock(), caster(2)
    assert clock.numbers(faults, "t", [1_731_600_000_123, 1_731_600_001_000], "s").tolist() == [
        0,
        877 * 10**9,
    ]
    assert clock.base_ns == 1_731_600_000_123 * 10**9


def test_clock_refuses_what_is_no_time() -> None:
    clock, faults = Clock(), caster(5)
    clock.numbers(faults, "t", [1, True, None, float("nan"), "x"], "s")
    assert {i: f.reason for i, f in faults.faults.items()} == {
        1: "not a time",
        2: "missing",
        3: "not a finite number",
        4: "not a number",
    }


ids = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([-1, 2**64, 2**70]), max_size=4)


@given(st.lists(st.tuples(st.none() | ids, st.integers(1, 70) | st.just(NULL)), max_size=8))
def test_block_lists(rows: list[tuple[list[int] | None, int]]) -> None:
    lists = [row[0] for row in rows]
    faults = caster(len(rows))
    flat, lengths = block_lists(faults, "b", lists, np.array([row[1] for row in rows], np.int32), 16)
    assert flat.dtype == np.uint64
    assert len(flat) == np.maximum(lengths, 0).sum()
    bounds = np.cumsum([0, *np.maximum(lengths, 0).tolist()])
    for index, (blocks, tokens) in enumerate(rows):
        fits = all(0 <= one < 2**64 for one in blocks or [])
        count = blocks is None or tokens == NULL or len(blocks) == math.ceil(tokens / 16)
        assert (index not in faults.faults) == (fits and count)
        if fits:
            assert lengths[index] == (-1 if blocks is None else len(blocks))
            assert flat[bounds[index] : bounds[index + 1]].tolist() == (blocks or [])
