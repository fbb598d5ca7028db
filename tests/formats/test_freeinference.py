"""FreeInference: nested agentic sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servescope.errors import BadRowError
from servescope.formats.detect import detect
from servescope.formats.format import ReadOptions
from servescope.formats.source import open_source
from tests.formats.reading import column, columns, counts, read, rejected

TRACE = Path(__file__).parents[1] / "data" / "freeinference.jsonl"


def _sessions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in TRACE.read_text().splitlines()]


def _write(tmp_path: Path, sessions: list[Any]) -> Path:
    path = tmp_path / "sessions.jsonl"
    path.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    return path


def test_detected_by_content_and_by_no_other_format() -> None:
    assert detect(open_source(str(TRACE)), ReadOptions()).name == "freeinference"


def test_requests_of_nested_sessions() -> None:
    trace = read(TRACE)
    assert counts(trace) == (5, 5, 0)
    assert columns(trace, "source_id", "session_id", "parent_id", "turn", "source_row") == {
        "source_id": ["s1#0", "s1-sub#0", "s1-sub#1", "s1#1", "s2#0"],
        "session_id": [0, 0, 0, 0, 1],
        "parent_id": [None, 0, 1, 0, None],
        "turn": [1, 2, 3, 2, 1],
        "source_row": [1, 1, 1, 1, 2],
    }
    assert columns(trace, "input_tokens", "output_tokens", "cached_tokens", "ttft_s") == {
        "input_tokens": [40, 20, 36, 60, 33],
        "output_tokens": [12, 3, 3, 20, 1],
        "cached_tokens": [16, None, 16, 32, 0],
        "ttft_s": [1.5, None, 0.1, 0.9, 0.2],
    }
    assert column(trace, "arrival_us")[:3] == [0, 4_264_000, 5_764_000]
    assert column(trace, "cache_scope") == ["glm/B", "glm/A", "glm/A", "glm/B", "glm/B"]
    assert column(trace, "endpoint") == ["chat_stream", "chat", "chat", "chat_stream", "chat_stream"]


def test_blocks_are_chained_and_weeks_share_none() -> None:
    trace = read(TRACE)
    later = 1 << 48
    assert column(trace, "block_ids") == [[1, 2], [7], [7, 8], [1, 2, 3], [later + 1, later + 2]]
    assert (trace.meta.block_tokens, trace.meta.chained) == (16, True)
    assert any("numbered by week" in text for text in trace.meta.decisions)


def test_one_week_keeps_its_ids(tmp_path: Path) -> None:
    big = 2**63 + 5
    session = _sessions()[1]
    session["requests"][0]["block_ids"] = [1, big]
    assert column(read(_write(tmp_path, [session])), "block_ids") == [[1, big]]


def test_the_names_input_and_output_are_read_too(tmp_path: Path) -> None:
    session = _sessions()[1]
    session["requests"][0]["provider_tokens"] = {"input": 5, "output": 6, "cached": 1}
    trace = read(_write(tmp_path, [session]))
    assert columns(trace, "input_tokens", "output_tokens") == {"input_tokens": [5], "output_tokens": [6]}


def test_a_bad_request_is_one_rejected_row_with_its_place(tmp_path: Path) -> None:
    sessions = _sessions()
    subagent = sessions[0]["requests"][0]["tool_calls"][0]["subagent"]
    subagent["requests"][1]["start_ms"] = "soon"
    path = _write(tmp_path, sessions)
    field = "requests[0].tool_calls[0].subagent.requests[1].start_ms"
    with pytest.raises(BadRowError) as caught:
        read(path)
    assert (caught.value.fault.line, caught.value.fault.field) == (1, field)
    trace = read(path, on_bad_row="skip")
    assert counts(trace) == (5, 4, 1)
    assert rejected(trace) == [(1, field, '"soon"', "a whole number was expected")]


def test_a_bad_count_names_its_place(tmp_path: Path) -> None:
    sessions = _sessions()
    sessions[0]["requests"][1]["provider_tokens"]["prompt"] = -4
    with pytest.raises(BadRowError) as caught:
        read(_write(tmp_path, sessions))
    assert caught.value.fault.field == "requests[1].provider_tokens.prompt"


def test_a_line_that_is_no_session_is_one_rejected_row(tmp_path: Path) -> None:
    path = _write(tmp_path, [*_sessions(), [1, 2], {"session_id": "s3"}])
    trace = read(path, on_bad_row="skip")
    assert counts(trace) == (7, 5, 2)
    assert [one[:2] for one in rejected(trace)] == [(3, ""), (4, "requests")]


def test_a_rejected_request_leaves_its_child_without_parent(tmp_path: Path) -> None:
    sessions = _sessions()
    sessions[0]["requests"][0]["end_ms"] = 1
    trace = read(_write(tmp_path, sessions), on_bad_row="skip")
    assert column(trace, "source_id") == ["s1-sub#0", "s1-sub#1", "s1#1", "s2#0"]
    assert column(trace, "parent_id") == [None, 0, None, None]
    assert column(trace, "turn") == [2, 3, 2, 1]
    assert column(trace, "session_id") == [0, 0, 0, 1]
