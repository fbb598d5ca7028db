"""Logs of OpenAI-like interfaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servescope.errors import BadRowError, UsageError
from servescope.formats.detect import detect
from servescope.formats.format import ReadOptions
from servescope.formats.source import open_source
from tests.formats.reading import column, columns, counts, read

LOG = Path(__file__).parents[1] / "data" / "openai_log.jsonl"
START = 1_772_445_600


def _log(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _row(usage: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"start_time": START + 0.5, "model": "m", "usage": usage, **more}


def test_detected_by_content_and_by_no_other_format() -> None:
    assert detect(open_source(str(LOG)), ReadOptions()).name == "openai_log"


def test_a_first_line_of_many_pages_is_still_detected(tmp_path: Path) -> None:
    long = {"messages": [{"role": "user", "content": "word " * 60_000}], **_row({"prompt_tokens": 60_000})}
    path = _log(tmp_path, long, long)
    assert detect(open_source(str(path)), ReadOptions()).name == "openai_log"


def test_values_of_every_shape() -> None:
    trace = read(LOG)
    assert counts(trace) == (5, 5, 0)
    assert columns(trace, "arrival_us", "input_tokens", "output_tokens", "cached_tokens", "status") == {
        "arrival_us": [0, 875_000, 2_375_000, 2_875_000, 3_875_000],
        "input_tokens": [100, 50, 120, 40, None],
        "output_tokens": [20, 5, 7, 4, None],
        "cached_tokens": [64, 0, 90, None, None],
        "status": ["ok", "ok", "ok", "ok", "failed"],
    }
    assert column(trace, "endpoint") == ["chat_stream", "responses", "messages", "chat", None]
    assert column(trace, "model") == ["small", "small", "other", "small", None]
    assert column(trace, "source_id") == ["chatcmpl-1", "resp-1", "msg-1", "chatcmpl-2", "c-9"]
    assert column(trace, "ttft_s")[0] == 0.25
    assert column(trace, "completed_us")[0] == 1_500_000
    assert column(trace, "session_id") == [None, 0, None, None, None]


def test_created_is_taken_only_without_a_start_and_noted() -> None:
    note = read(LOG).meta.ledger.notes["whole_seconds"]
    assert note.count == 2
    assert note.lines == [4, 5]


def test_each_shape_says_what_its_input_holds() -> None:
    decisions = " ".join(read(LOG).meta.decisions)
    assert "includes cached tokens (by the specification of OpenAI's prompt_tokens_details)" in decisions
    assert "excludes cached tokens (by the specification of Anthropic's usage)" in decisions


MIXED = {"prompt_tokens": 30, "completion_tokens": 1, "cache_read_input_tokens": 20}


def test_an_uncertain_shape_must_be_declared(tmp_path: Path) -> None:
    path = _log(tmp_path, _row(MIXED))
    with pytest.raises(UsageError, match="not certain whether the input counts include them"):
        read(path)
    assert column(read(path, input_includes_cached=True), "input_tokens") == [30]
    assert column(read(path, input_includes_cached=False), "input_tokens") == [50]


def test_the_mixture_without_cached_tokens_needs_no_word(tmp_path: Path) -> None:
    path = _log(tmp_path, _row({**MIXED, "cache_read_input_tokens": 0}))
    assert column(read(path), "cached_tokens") == [0]


@pytest.mark.parametrize(
    ("value", "unit"),
    [(START, "s"), (START * 1000, "ms"), (START * 10**6, "us"), (START * 10**9, "ns")],
)
def test_the_size_of_a_number_fixes_its_unit(tmp_path: Path, value: int, unit: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    trace = read(_log(tmp_path, {"timestamp": value, "usage": usage}))
    assert trace.meta.origin.first_ns == START * 10**9
    assert any(f"timestamp is in {unit} since 1970" in text for text in trace.meta.decisions)


def test_a_small_number_is_refused_until_its_unit_is_declared(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    path = _log(tmp_path, {"timestamp": 12.5, "usage": usage}, {"timestamp": 14, "usage": usage})
    with pytest.raises(UsageError, match="unit of timestamp is not certain"):
        read(path)
    assert column(read(path, time_unit="s"), "arrival_us") == [0, 1_500_000]


def test_a_change_of_unit_is_a_bad_row(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    path = _log(tmp_path, {"timestamp": START, "usage": usage}, {"timestamp": START * 1000, "usage": usage})
    with pytest.raises(BadRowError, match=r":2: field \"timestamp\".*not a time in s"):
        read(path)


def test_a_row_without_any_time_is_a_bad_row(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    path = _log(tmp_path, _row(usage), {"usage": usage})
    with pytest.raises(BadRowError, match="no start time"):
        read(path)
    assert counts(read(path, on_bad_row="skip")) == (2, 1, 1)


def test_previous_response_ids_make_sessions(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "output_tokens": 1}
    rows = [
        {"id": "r1", "object": "response", "start_time": START + 0.1, "usage": usage},
        {"id": "r2", "previous_response_id": "r1", "start_time": START + 1.1, "usage": usage},
        {"id": "r3", "start_time": START + 2.1, "usage": usage},
    ]
    trace = read(_log(tmp_path, *rows))
    assert column(trace, "parent_id") == [None, 0, None]
    assert column(trace, "session_id") == [0, 0, 2]


def test_a_broken_line_keeps_its_number(tmp_path: Path) -> None:
    path = _log(tmp_path, _row({"prompt_tokens": 3}))
    path.write_text(path.read_text() + "\n{broken\n")
    with pytest.raises(BadRowError, match=r"log\.jsonl:3: row: invalid JSON"):
        read(path)
