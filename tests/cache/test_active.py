"""KV cache of running requests against exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.cache import active
from servescope.cache.active_kernels import grown
from servescope.errors import UsageError
from tests.reference import active as reference
from tests.traces import build

NULL = -(2**63)


@st.composite
def a_request(draw: st.DrawFn) -> reference.Request:
    start = draw(st.integers(0, 40))
    first = start + draw(st.integers(0, 30))
    end = first + draw(st.integers(0, 30))
    return start, first, end, draw(st.integers(0, 50)), draw(st.integers(0, 50))


def running(requests: list[reference.Request]) -> active.Running:
    return active.Running(*np.array(requests, np.int64).reshape(-1, 5).T)


@settings(max_examples=200, deadline=None)
@given(st.lists(a_request(), max_size=12), st.integers(1, 25))
def test_the_series_equals_the_sums(requests: list[reference.Request], step_us: int) -> None:
    table = active.active_tokens(running(requests), step_us=step_us).data.to_pydict()
    rows = len(table["start_s"])
    assert rows == -(-max((request[2] for request in requests), default=0) // step_us)
    twice, spent = reference.mean(requests, step_us, rows)
    assert table["active_tokens_mean"] == [value / (2 * step_us) for value in twice]
    assert table["requests_running_mean"] == [value / step_us for value in spent]
    peaks, counts = reference.peak(requests, step_us, rows)
    assert table["requests_running_max"] == counts
    for found, exact in zip(table["active_tokens_max"], peaks, strict=True):
        assert abs(found - exact) <= Fraction(1, 2) + Fraction(1, 10**6)


@settings(max_examples=100, deadline=None)
@given(st.lists(a_request(), max_size=8), st.integers(1, 25), st.randoms())
def test_the_order_of_requests_changes_nothing(
    requests: list[reference.Request], step_us: int, random: object
) -> None:
    shuffled = list(requests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first = active.active_tokens(running(requests), step_us=step_us).data
    assert first.equals(active.active_tokens(running(shuffled), step_us=step_us).data)


def test_one_request_by_hand() -> None:
    # 100 prompt tokens from 0 to 4 s, an answer of 40 tokens from 2 s to 4 s
    one = running([(0, 2_000_000, 4_000_000, 100, 40)])
    rows = active.active_tokens(one, step_us=1_000_000, memory_tokens=1000).rows()
    assert [row["active_tokens_mean"] for row in rows] == [100, 100, 110, 130]
    assert [row["active_tokens_max"] for row in rows] == [100, 100, 120, 140]
    assert [row["left_tokens_mean"] for row in rows] == [900, 900, 890, 870]
    assert [row["left_tokens_min"] for row in rows] == [900, 900, 880, 860]
    assert [row["start_s"] for row in rows] == [0, 1, 2, 3]


def test_a_request_that_ends_as_another_begins_is_gone() -> None:
    pair = running([(0, 0, 10, 7, 0), (10, 10, 20, 5, 0)])
    rows = active.active_tokens(pair, step_us=20).rows()
    assert (rows[0]["active_tokens_max"], rows[0]["requests_running_max"]) == (7, 1)
    rows = active.active_tokens(pair, step_us=10).rows()
    assert [row["active_tokens_max"] for row in rows] == [7, 5]


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**60), st.integers(1, 2**60))
def test_growth_of_any_length_is_exact(tokens: int, past_us: int, span_us: int) -> None:
    expected = tokens if past_us >= span_us else tokens * past_us // span_us
    assert grown(tokens, past_us, span_us) == expected


def test_what_is_not_known_is_counted() -> None:
    found, left = active.running_requests(
        np.array([0, 10, 20, 30, 40, 50]),
        np.array([NULL, 15, 10, 1_000_030, 1_000_040, 60]),
        np.array([0.1, np.nan, 0.0, np.nan, 5.0, np.nan]),
        np.array([1, -(2**31), 3, 4, 5, 6], np.int32),
        np.array([1, 2, 3, 9, 8, -(2**31)], np.int32),
    )
    assert left == active.Left(no_completion=2, no_input=1, no_output=1, no_first_token=1, late_first=1)
    assert [column.tolist() for column in found] == [
        [30, 40, 50], [30, 1_000_040, 50], [1_000_030, 1_000_040, 60], [4, 5, 6], [9, 8, 0]
    ]  # fmt: skip
    assert left.notes()[0].startswith("2 requests without a completion time")
    assert len(left.notes()) == 5


def test_without_first_tokens_and_outputs() -> None:
    found, left = active.running_requests(np.array([5]), np.array([9]), None, np.array([3]), None)
    assert [int(column[0]) for column in found] == [5, 5, 9, 3, 0]
    assert (left.no_output, left.no_first_token, left.late_first) == (1, 0, 0)


def test_no_request_gives_no_row() -> None:
    assert active.active_tokens(running([])).data.num_rows == 0


def test_steps() -> None:
    assert active.default_step_us(0) == 1_000_000
    assert active.default_step_us(7200 * 10**6) == 1_000_000
    assert active.default_step_us(86_400 * 10**6) == 10 * 10**6
    assert active.default_step_us(10**18) == 86_400 * 10**6
    one = running([(0, 0, 10**9, 1, 1)])
    with pytest.raises(UsageError, match="name one above 0"):
        active.active_tokens(one, step_us=0)
    with pytest.raises(UsageError, match="too many; name a longer step"):
        active.active_tokens(one, step_us=1)


def test_sums_beyond_64_bits_are_refused() -> None:
    with pytest.raises(UsageError, match="name a shorter step"):
        active.active_tokens(running([(0, 0, 10, 1, 2**30)]), step_us=10)
    with pytest.raises(UsageError, match="name a shorter step"):
        active.active_tokens(running([(0, 0, 10, 2**40, 1)]), step_us=10**9)


COLUMNS = {
    "arrival_us": [0, 1_000_000, 2_000_000, 3_000_000],
    "completed_us": [4_000_000, 3_000_000, None, 5_000_000],
    "ttft_s": [2.0, 0.5, 0.5, None],
    "input_tokens": [100, 10, 7, None],
    "output_tokens": [40, 5, 5, 5],
    "model": ["a", "b", "a", "a"],
}


@pytest.mark.parametrize("cuts", [(), (1, 3)])
def test_a_trace(cuts: tuple[int, ...]) -> None:
    trace = build(COLUMNS, cuts=cuts)
    (table,), notes = active.active_kv(trace, step_us=10**6, memory_tokens=1000)
    assert table.data["active_tokens_max"].to_pylist() == [100, 112, 135, 140]  # 111.67, rounded
    assert table.data["left_tokens_min"].to_pylist() == [900, 888, 865, 860]
    assert [note.split(" without ")[0] for note in notes] == ["1 request", "1 request"]
    (of_a,), _ = active.active_kv(trace, step_us=10**6, code=trace.codes("model")["a"])
    assert of_a.data["active_tokens_max"].to_pylist() == [100, 100, 120, 140]


def test_a_trace_without_completions_says_what_it_cannot_tell() -> None:
    assert active.active_kv(build({"arrival_us": [0], "input_tokens": [5]})) == ([], [active.LIMIT])
    none_known = build({"arrival_us": [0], "input_tokens": [5], "completed_us": [None]})
    tables, notes = active.active_kv(none_known)
    assert tables == []
    assert notes[0] == active.LIMIT
    assert notes[1].startswith("1 request without a completion time")
