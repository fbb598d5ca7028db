"""The input cases that are CSV: Azure, BurstGPT and tables with a column map."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from servescope.errors import BadRowError, UsageError
from tests.formats.reading import column, columns, counts, read, rejected
from tests.shared import CASES, needs_cases

pytestmark = needs_cases

TOKENS = {"arrival": "ts_s", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
USERS = {**TOKENS, "session": "user"}
SHORT = {"arrival": "ts", "input_tokens": "in", "output_tokens": "out"}


class TestTextInNumber:
    path = CASES / "03-text-in-number.csv"

    def test_strict(self) -> None:
        with pytest.raises(BadRowError) as caught:
            read(self.path, map=USERS, time_unit="s")
        assert str(caught.value).startswith(
            f'{self.path}:3: field "prompt_tokens" is "12O": a whole number was expected. '
        )

    def test_skip(self) -> None:
        trace = read(self.path, map=USERS, time_unit="s", on_bad_row="skip")
        assert counts(trace) == (5, 2, 3)
        expected = "a whole number was expected"
        assert rejected(trace) == [
            (3, "prompt_tokens", '"12O"', expected),
            (4, "prompt_tokens", '"1,024"', expected),
            (6, "completion_tokens", '"abc"', expected),
        ]
        got = columns(
            trace, "source_row", "arrival_us", "input_tokens", "output_tokens", "session_id", "turn"
        )
        assert got == {
            "source_row": [2, 5],
            "arrival_us": [0, 750_000],
            "input_tokens": [120, 88],
            "output_tokens": [30, 12],
            "session_id": [0, 0],
            "turn": [1, 2],
        }
        assert trace.meta.session_names == ["u1"]


class TestEmptyAndNanCounts:
    path = CASES / "04-empty-nan-counts.csv"

    def test_strict(self) -> None:
        with pytest.raises(BadRowError) as caught:
            read(self.path, map=TOKENS, time_unit="s")
        found = caught.value.fault
        assert (found.line, found.field, found.value, found.reason) == (3, "prompt_tokens", "", "missing")

    def test_skip(self) -> None:
        trace = read(self.path, map=TOKENS, time_unit="s", on_bad_row="skip")
        assert counts(trace) == (9, 4, 5)
        assert rejected(trace) == [
            (3, "prompt_tokens", "", "missing"),
            (4, "prompt_tokens", '"NaN"', "not a number (NaN)"),
            (7, "prompt_tokens", '"64.5"', "not a whole number"),
            (8, "prompt_tokens", '"0"', "a request has at least one input token"),
            (10, "prompt_tokens", '"-3"', "must be at least 1"),
        ]
        assert columns(trace, "source_row", "input_tokens", "output_tokens", "arrival_us") == {
            "source_row": [2, 5, 6, 9],
            "input_tokens": [50, 60, 64, 40],
            "output_tokens": [10, None, 8, 0],
            "arrival_us": [0, 300_000, 400_000, 700_000],
        }
        assert "status" not in trace.meta.columns
        assert all(str(table.schema.field("output_tokens").type) == "int32" for table in trace.arrow())


class TestSevenDigits:
    path = CASES / "06-azure-7digit.csv"

    def test_values(self) -> None:
        trace = read(self.path)
        assert columns(trace, "source_row", "arrival_us", "input_tokens", "output_tokens") == {
            "source_row": [2, 3, 4, 5],
            "arrival_us": [0, 1, 123_457, 2_000_000],
            "input_tokens": [410, 15, 2048, 300],
            "output_tokens": [20, 1, 64, 7],
        }
        assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("calendar", 1_700_125_200_000_000_100)
        assert trace.meta.ledger.texts() == ["no time zone in file, read as UTC"]

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
    def test_the_host_zone_does_not_matter(self, zone: str) -> None:
        code = (
            "import sys, time; time.tzset()\n"
            "from servescope.formats.read import read_trace\n"
            "trace = read_trace(sys.argv[1:])\n"
            "print(time.tzname[0], trace.meta.origin.first_ns, [t.column(0).to_pylist() for t in "
            "trace.arrow(['arrival_us'])])"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, str(self.path)],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        )
        name, rest = ran.stdout.strip().split(" ", 1)
        assert name == {"UTC": "UTC", "America/New_York": "EST", "Asia/Kolkata": "IST"}[zone]
        assert rest == "1700125200000000100 [[0, 1, 123457, 2000000]]"


def test_mixed_offsets_and_whole_seconds() -> None:
    trace = read(CASES / "07-azure-mixed-offset.csv")
    assert counts(trace) == (5, 5, 0)
    assert column(trace, "arrival_us") == [0, 2_500, 1_500_000, 3_000_000, 1_799_750_000]
    assert column(trace, "source_row") == [2, 3, 4, 5, 6]
    assert trace.meta.origin.clock_us == 1_715_472_000_000_000
    assert trace.meta.ledger.texts() == []
    assert trace.meta.ledger.repaired == {}


def test_byte_order_mark_and_quoted_header() -> None:
    trace = read(CASES / "08-bom-header.csv")
    assert columns(trace, "arrival_us", "input_tokens", "output_tokens", "source_row") == {
        "arrival_us": [0, 1_500_000],
        "input_tokens": [128, 256],
        "output_tokens": [16, 0],
        "source_row": [2, 3],
    }


class TestUndeclaredUnits:
    path = CASES / "09-units-undeclared.csv"

    def test_refused_with_what_is_needed(self) -> None:
        with pytest.raises(UsageError) as caught:
            read(self.path, map=SHORT)
        assert caught.value.exit_code == 2
        assert str(caught.value).startswith(
            f'{self.path}: the unit of column "ts" is not declared; its first value is "1731600000123". '
            "Pass --time-unit s, ms, us or ns"
        )

    def test_milliseconds(self) -> None:
        trace = read(self.path, map=SHORT, time_unit="ms")
        assert column(trace, "arrival_us") == [0, 877_000, 1_754_000]
        assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("calendar", 1_731_600_000_123_000_000)
        assert any("in ms (declared) since 1970 UTC" in text for text in trace.meta.decisions)
        assert trace.meta.ledger.texts() == []

    def test_seconds_are_far_in_the_future(self) -> None:
        trace = read(self.path, map=SHORT, time_unit="s")
        assert column(trace, "arrival_us") == [0, 877_000_000, 1_754_000_000]
        assert trace.meta.origin.first_ns == 1_731_600_000_123 * 10**9
        (note,) = trace.meta.ledger.texts()
        assert note.startswith("the dates are in the year 56842, far in the future")


def test_burstgpt_failures_and_totals() -> None:
    trace = read(CASES / "19-burst-failures.csv")
    assert counts(trace) == (5, 5, 0)
    got = columns(
        trace,
        "arrival_us",
        "status",
        "input_tokens",
        "output_tokens",
        "session_id",
        "parent_id",
        "turn",
        "model",
    )
    assert got == {
        "arrival_us": [0, 2_000_000, 2_000_000, 10_000_000, 3_610_000_000],
        "status": ["ok", "failed", "ok", "ok", "ok"],
        "input_tokens": [210, 96, 96, 300, 55],
        "output_tokens": [35, 0, 14, 20, 5],
        "session_id": [0, None, None, 0, 1],
        "parent_id": [None, None, None, 0, None],
        "turn": [1, None, None, 2, 1],
        "model": ["GPT-4", "ChatGPT", "ChatGPT", "GPT-4", "GPT-4"],
    }
    assert trace.meta.session_names == ["s-1", "s-2"]
    note = trace.meta.ledger.notes["inconsistent_total"]
    assert (note.count, note.lines) == (1, [5])
    assert '"Total tokens"' in note.text()
    assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("relative", 10 * 10**9)
    assert any("no time zone is known" in text for text in trace.meta.decisions)


def test_burstgpt_ends_of_requests() -> None:
    trace = read(CASES / "29-think-time.csv")
    got = columns(trace, "arrival_us", "completed_us", "session_id", "turn", "parent_id")
    assert got == {
        "arrival_us": [0, 3_000_000, 4_000_000, 10_000_000, 12_000_000],
        "completed_us": [4_000_000, 4_000_000, 5_000_000, 15_000_000, None],
        "session_id": [0, None, None, 0, 0],
        "turn": [1, None, None, 2, 3],
        "parent_id": [None, None, None, 0, 3],
    }
    turns = [row for row, session in enumerate(got["session_id"]) if session == 0]
    ends, starts = got["completed_us"], got["arrival_us"]
    assert [starts[b] - ends[a] for a, b in itertools.pairwise(turns)] == [6_000_000, -3_000_000]
