"""OpenTelemetry GenAI spans as OTLP JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servescope.errors import BadRowError, UsageError
from servescope.formats.detect import detect
from servescope.formats.format import ReadOptions
from servescope.formats.source import open_source
from tests.formats.reading import column, columns, counts, read, rejected

LINES = Path(__file__).parents[1] / "data" / "otlp_lines.jsonl"


def _document(tmp_path: Path) -> Path:
    """Both exports as one document over many lines."""
    exports = [json.loads(line) for line in LINES.read_text().splitlines()]
    joined = {"resourceSpans": [r for export in exports for r in export["resourceSpans"]]}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(joined, indent=1))
    return path


def _span(tmp_path: Path, attributes: dict[str, Any], **changes: Any) -> Path:
    held = [{"key": key, "value": value} for key, value in attributes.items()]
    span = {
        "traceId": "aa",
        "spanId": "01",
        "startTimeUnixNano": "1772445600000000000",
        "endTimeUnixNano": "1772445601000000000",
        "attributes": held,
        **changes,
    }
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n")
    return path


CHAT = {
    "gen_ai.operation.name": {"stringValue": "chat"},
    "gen_ai.request.model": {"stringValue": "m"},
    "gen_ai.usage.input_tokens": {"intValue": "10"},
}


def test_detected_as_lines_and_as_a_document(tmp_path: Path) -> None:
    for path in (LINES, _document(tmp_path)):
        assert detect(open_source(str(path)), ReadOptions()).name == "otlp"


def test_old_and_new_names_give_the_same_columns() -> None:
    trace = read(LINES)
    assert counts(trace) == (3, 3, 0)
    assert columns(trace, "input_tokens", "output_tokens", "cached_tokens", "ttft_s", "model", "status") == {
        "input_tokens": [120, 50, None],
        "output_tokens": [30, 5, None],
        "cached_tokens": [96, None, None],
        "ttft_s": [0.25, 0.5, None],
        "model": ["small", "small", "small"],
        "status": ["ok", "ok", "failed"],
    }
    assert column(trace, "endpoint") == ["chat_stream", None, "chat"]
    assert column(trace, "instance") == ["gw.example", None, None]


def test_nanoseconds_are_exact() -> None:
    trace = read(LINES)
    assert trace.meta.origin.first_ns == 1_772_445_600_000_000_123
    assert column(trace, "completed_us") == [2_000_000, 3_000_000, 4_100_000]


def test_agent_spans_are_counted_but_are_no_rows() -> None:
    note = read(LINES).meta.ledger.notes["other_spans"]
    assert note.count == 1
    assert column(read(LINES), "source_id") == ["02", "03", "04"]


def test_session_is_the_conversation_else_the_trace() -> None:
    trace = read(LINES)
    assert column(trace, "session_id") == [0, 1, 1]
    assert trace.meta.session_names == ["conv-1", "bb02"]


def test_a_document_numbers_its_spans(tmp_path: Path) -> None:
    document, lines = read(_document(tmp_path)), read(LINES)
    assert column(lines, "source_row") == [1, 2, 2]
    assert column(document, "source_row") == [2, 3, 4]
    assert column(document, "input_tokens") == column(lines, "input_tokens")


def test_a_broken_document_names_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"resourceSpans": [\n  {"scopeSpans": [}\n]}\n')
    with pytest.raises(BadRowError, match=r"broken\.json:2: row: invalid JSON at column 19"):
        read(path)


def test_a_bad_span_is_one_rejected_row_with_its_place(tmp_path: Path) -> None:
    export = json.loads(LINES.read_text().splitlines()[1])
    spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["startTimeUnixNano"] = "noon"
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(export) + "\n")
    trace = read(path, on_bad_row="skip")
    assert counts(trace) == (2, 1, 1)
    (line, field, value, _), *_ = rejected(trace)
    assert (line, value) == (1, '"noon"')
    assert field == "resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano"


def test_the_older_cached_name_must_be_declared_unless_openai_defines_it(tmp_path: Path) -> None:
    old = {"gen_ai.usage.cache_read_input_tokens": {"intValue": "4"}}
    anthropic = {"gen_ai.system": {"stringValue": "anthropic"}}
    path = _span(tmp_path, {**CHAT, **old, **anthropic})
    with pytest.raises(UsageError, match="older than the conventions"):
        read(path)
    assert column(read(path, input_includes_cached=False), "input_tokens") == [14]
    path = _span(tmp_path, {**CHAT, **old, "gen_ai.system": {"stringValue": "openai"}})
    assert columns(read(path), "input_tokens", "cached_tokens") == {
        "input_tokens": [10],
        "cached_tokens": [4],
    }


def test_an_end_before_the_start_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(BadRowError, match="the end is before the start"):
        read(_span(tmp_path, CHAT, endTimeUnixNano="1"))


def test_a_call_inside_a_call_is_noted(tmp_path: Path) -> None:
    path = _span(tmp_path, CHAT)
    export = json.loads(path.read_text())
    spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append({**spans[0], "spanId": "02", "parentSpanId": "01"})
    path.write_text(json.dumps(export))
    trace = read(path)
    assert trace.rows == 2
    assert trace.meta.ledger.notes["nested_calls"].count == 1
