"""LiteLLM spend logs and logging payloads."""

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

DATA = Path(__file__).parents[1] / "data"
SPEND = DATA / "litellm_spend.jsonl"
PAYLOADS = DATA / "litellm_payloads.jsonl"


def _changed(tmp_path: Path, **changes: Any) -> Path:
    """The first spend-log row and, as line 2, the same row with other values."""
    row = json.loads(SPEND.read_text().splitlines()[0])
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **changes}) + "\n")
    return path


@pytest.mark.parametrize("path", [SPEND, PAYLOADS])
def test_detected_by_content_and_by_no_other_format(path: Path) -> None:
    assert detect(open_source(str(path)), ReadOptions()).name == "litellm"


def test_spend_log_values() -> None:
    trace = read(SPEND)
    assert counts(trace) == (4, 4, 0)
    assert columns(trace, "source_row", "arrival_us", "completed_us", "input_tokens", "output_tokens") == {
        "source_row": [1, 2, 4, 5],
        "arrival_us": [0, 4_750_000, 6_250_000, 6_750_001],
        "completed_us": [2_000_000, 4_754_000, 6_450_000, 7_750_000],
        "input_tokens": [200, 210, None, 80],
        "output_tokens": [50, 50, None, 10],
    }
    assert column(trace, "status") == ["ok", "ok", "failed", "ok"]
    assert column(trace, "model") == ["small", "small", "small", "tiny"]
    assert column(trace, "user") == ["alice", "u1", "88dc", "88dc"]
    assert column(trace, "turn") == [1, 2, 1, 1]
    assert trace.meta.session_names == ["s-1", "s-2", "s-3"]
    assert trace.meta.origin.kind == "calendar"


def test_first_token_is_known_only_where_it_is_not_the_end() -> None:
    trace = read(SPEND)
    assert column(trace, "ttft_s") == [0.5, None, None, None]
    assert column(trace, "endpoint") == ["chat_stream", "chat", "chat", "completion"]


def test_a_response_cache_hit_is_no_prefix_reuse() -> None:
    trace = read(SPEND)
    assert column(trace, "cached_tokens") == [128, None, None, None]
    notes = trace.meta.ledger.notes["response_cache"]
    assert notes.count == 1
    assert notes.lines == [2]
    assert "not prefix reuse" in notes.text()


def test_zero_prompt_tokens_are_unknown_and_noted() -> None:
    assert read(SPEND).meta.ledger.notes["no_usage"].lines == [4]


def test_times_without_zone_are_noted() -> None:
    assert "2 times name no zone; read as UTC" in read(SPEND).meta.ledger.texts()


def test_payload_values() -> None:
    trace = read(PAYLOADS)
    assert column(trace, "arrival_us") == [0, 3_750_000, 4_750_000]
    assert column(trace, "ttft_s") == [0.404321, None, None]
    assert column(trace, "cached_tokens") == [96, None, None]
    assert column(trace, "input_tokens") == [120, None, 8]
    assert column(trace, "source_id") == ["p-1", "p-2", "p-3"]


def test_a_column_without_any_value_counts_as_absent(tmp_path: Path) -> None:
    row = json.loads(SPEND.read_text().splitlines()[0])
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({k: v for k, v in row.items() if k not in ("session_id", "metadata")}))
    trace = read(path)
    assert not trace.has("session_id")
    assert not trace.has("cached_tokens")
    assert trace.has("ttft_s")


def test_declaring_that_input_excludes_cached_tokens_adds_them(tmp_path: Path) -> None:
    trace = read(SPEND, input_includes_cached=False)
    assert column(trace, "input_tokens") == [328, 210, None, 80]
    assert any("excludes cached tokens (declared)" in text for text in trace.meta.decisions)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"prompt_tokens": "many"}, "prompt_tokens", "a whole number was expected"),
        ({"prompt_tokens": -1}, "prompt_tokens", "must be at least 0"),
        ({"startTime": "yesterday"}, "startTime", "not a calendar time"),
        ({"startTime": None}, "startTime", "missing"),
        ({"endTime": "2026-03-02T09:00:00Z"}, "endTime", "the end is before the start"),
        ({"metadata": "{oops"}, "metadata", "invalid JSON inside the text"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, changes: dict[str, Any], field: str, reason: str) -> None:
    path = _changed(tmp_path, **changes)
    with pytest.raises(BadRowError) as caught:
        read(path)
    assert (caught.value.fault.line, caught.value.fault.field) == (2, field)
    assert reason in caught.value.fault.reason
    trace = read(path, on_bad_row="skip")
    assert counts(trace) == (2, 1, 1)
    assert [one[:2] for one in rejected(trace)] == [(2, field)]
