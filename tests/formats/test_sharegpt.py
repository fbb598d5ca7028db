"""ShareGPT conversations, case 21."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from servescope.errors import BadRowError, DataError, UsageError
from servescope.formats.detect import detect
from servescope.formats.format import ReadOptions
from servescope.formats.source import open_source
from tests.formats.reading import column, columns, read, rejected
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from pathlib import Path

CASE = CASES / "21-sharegpt-turns.json"


def _write(tmp_path: Path, *items: Any) -> Path:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(list(items)))
    return path


def _talk(*messages: tuple[str, str], name: str = "t") -> dict[str, Any]:
    return {"id": name, "conversations": [{"from": role, "value": text} for role, text in messages]}


def _tokenizer(path: Path) -> Path:
    """A tokenizer that makes one token of each word."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "green": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return path


@needs_cases
def test_case_21_strict_stops_at_item_8() -> None:
    with pytest.raises(BadRowError) as caught:
        read(CASE)
    fault = caught.value.fault
    assert (fault.line, fault.field, fault.reason) == (8, "conversations", "missing")


@needs_cases
def test_case_21_counts_items_and_requests() -> None:
    trace = read(CASE, on_bad_row="skip")
    ledger = trace.meta.ledger
    assert (ledger.read, ledger.kept, ledger.dropped, ledger.unit) == (8, 7, {"missing": 1}, "conversation")
    assert ledger.balanced()
    assert trace.rows == 6
    assert [one[:2] for one in rejected(trace)] == [(8, "conversations")]


@needs_cases
def test_case_21_requests_and_notes() -> None:
    trace = read(CASE, on_bad_row="skip")
    assert column(trace, "source_row") == [1, 1, 2, 3, 5, 7]
    assert column(trace, "turn") == [1, 2, 1, 1, 1, 1]
    assert column(trace, "parent_id") == [None, 0, None, None, None, None]
    assert trace.meta.session_names == ["c1", "c2", "c3", "c5", "c7"]
    assert column(trace, "input_tokens") == [None] * 6
    assert column(trace, "output_tokens") == [None, None, None, None, None, 0]
    texts = trace.meta.ledger.texts()
    assert "1 conversation without any reply (line 4)" in texts
    assert "1 empty conversation (line 6)" in texts
    assert any(text.startswith("1 conversation starts with a reply") for text in texts)


@needs_cases
def test_case_21_has_no_times() -> None:
    trace = read(CASE, on_bad_row="skip")
    assert trace.meta.origin.kind == "none"
    assert column(trace, "arrival_us") == [0] * 6


@needs_cases
def test_case_21_is_detected() -> None:
    assert detect(open_source(str(CASE)), ReadOptions()).name == "sharegpt"


def test_a_declared_ratio_gives_estimates_over_the_whole_history(tmp_path: Path) -> None:
    path = _write(
        tmp_path, _talk(("system", "abcd"), ("human", "abcdefgh"), ("gpt", "ab"), ("user", "a"), ("gpt", ""))
    )
    trace = read(path, chars_per_token=4.0)
    assert columns(trace, "input_tokens", "output_tokens") == {
        "input_tokens": [3, 5],
        "output_tokens": [1, 0],
    }
    assert any("estimates: 4 characters per token" in text for text in trace.meta.decisions)


def test_a_tokenizer_file_gives_its_counts(tmp_path: Path) -> None:
    path = _write(
        tmp_path, _talk(("human", "a green leaf"), ("gpt", "yes indeed"), ("human", "why"), ("gpt", "so"))
    )
    trace = read(path, tokenizer=str(_tokenizer(tmp_path / "words.json")))
    assert columns(trace, "input_tokens", "output_tokens") == {
        "input_tokens": [3, 6],
        "output_tokens": [2, 1],
    }
    assert any("words.json" in text for text in trace.meta.decisions)


def test_tokenizer_and_ratio_together_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, _talk(("human", "a"), ("gpt", "b")))
    with pytest.raises(UsageError, match="not both"):
        read(path, tokenizer="x.json", chars_per_token=4.0)
    with pytest.raises(UsageError, match="above 0"):
        read(path, chars_per_token=0.0)
    with pytest.raises(UsageError, match="no such tokenizer file"):
        read(path, tokenizer=str(tmp_path / "none.json"))


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, _talk(("human", "a"), ("gpt", "b")))
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(UsageError, match=r"servescope\[text\]"):
        read(path, tokenizer=str(path))


def test_a_reply_after_a_reply_is_history(tmp_path: Path) -> None:
    path = _write(
        tmp_path, _talk(("human", "abcd"), ("gpt", "abcd"), ("gpt", "abcd"), ("human", "abcd"), ("gpt", "x"))
    )
    trace = read(path, chars_per_token=4.0)
    assert column(trace, "input_tokens") == [1, 4]
    assert trace.meta.ledger.notes["reply_after_reply"].count == 1


def test_repeated_ids_stay_apart(tmp_path: Path) -> None:
    path = _write(tmp_path, _talk(("human", "a"), ("gpt", "b")), _talk(("human", "c"), ("gpt", "d")))
    assert column(read(path), "session_id") == [0, 1]


def test_an_unknown_role_rejects_the_item(tmp_path: Path) -> None:
    path = _write(tmp_path, _talk(("human", "a"), ("gpt", "b")), _talk(("parrot", "a"), name="u"))
    with pytest.raises(BadRowError, match=r':2: field "conversations\[0\].from" is "parrot": unknown role'):
        read(path)


def test_a_file_without_any_request_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no request in any of 1 conversations"):
        read(_write(tmp_path, _talk(("human", "a"))))


def test_a_broken_array_is_an_error_without_text(tmp_path: Path) -> None:
    path = _write(tmp_path, _talk(("human", "secret"), ("gpt", "b")))
    path.write_text(path.read_text()[:-3])
    with pytest.raises(DataError, match="the array is invalid JSON") as caught:
        read(path, format="sharegpt")
    assert "secret" not in str(caught.value)


def test_json_lines_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(json.dumps(_talk(("human", "a"), ("gpt", "b"), name=n)) for n in "xy"))
    assert column(read(path), "source_row") == [1, 2]
