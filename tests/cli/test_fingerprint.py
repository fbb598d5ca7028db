"""`fingerprint` on the command line: no text in what it writes or prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]

SECRET = "zebra in the cellar"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of four requests that share a beginning; the third has a text where a count should be."""
    rows = [
        {
            "start_time": 1_772_445_600.5 + i,
            "request": {"model": "m", "messages": [{"role": "user", "content": f"{SECRET} " * 8 + str(i)}]},
            "usage": {"prompt_tokens": 3, "completion_tokens": SECRET if i == 2 else 1},
        }
        for i in range(4)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def arguments(log: Path) -> list[object]:
    """A whole command line."""
    alphabet = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.save(str(log.with_name("tokenizer.json")))
    log.with_name("key").write_bytes(b"an invented key of 32 bytes only")
    given = ("--tokenizer", log.with_name("tokenizer.json"), "--key-file", log.with_name("key"))
    return ["fingerprint", log, "-o", log.with_name("out.parquet"), *given, "--no-chat-template"]


def test_blocks_are_shared_and_no_text_leaves(servescope: Call, log: Path, arguments: list[object]) -> None:
    done = servescope(*arguments, "--on-bad-row", "skip", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["ledger"]["kept"] == 3
    assert [row["value"] for row in found["tables"]["rejects"]] == [""]
    written = [log.with_name("out.parquet"), log.with_name("out.parquet.rejects.jsonl")]
    assert [row["file"] for row in found["tables"]["written"]] == [str(path) for path in written]
    texts = [done.out.encode(), done.err.encode(), *(path.read_bytes() for path in written)]
    assert not any(b"zebra" in text for text in texts)
    facts = json.loads(servescope("info", written[0], "--json").out)["tables"]["facts"][0]
    assert facts["block_tokens"] == 16
    assert facts["distinct_blocks"] < facts["block_references"]


def test_a_short_key_is_refused(servescope: Call, log: Path, arguments: list[object]) -> None:
    log.with_name("key").write_bytes(b"short")
    done = servescope(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "at least 16" in done.err
    assert not log.with_name("out.parquet").exists()


def test_strict_reading_says_where_but_not_what(servescope: Call, log: Path, arguments: list[object]) -> None:
    done = servescope(*arguments)
    assert (done.code, done.out) == (3, "")
    assert f"{log}:3: " in done.err
    assert "zebra" not in done.err
    assert not log.with_name("out.parquet").exists()
