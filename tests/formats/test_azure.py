"""Azure traces: the real files exactly, images, several files, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from servescope.errors import BadRowError, UsageError
from tests.formats.reading import column, columns, counts, read, rejected
from tests.shared import DATA, needs_data

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@needs_data
@pytest.mark.parametrize(("name", "rows"), [("azure2023_code.csv", 8_819), ("azure2023_conv.csv", 19_366)])
def test_real_files_against_a_plain_parse(name: str, rows: int) -> None:
    trace = read(DATA / name)
    assert counts(trace) == (rows, rows, 0)
    assert trace.meta.format == "azure"
    lines = (DATA / name).read_text().split("\n")[1:]
    parsed = []
    for line in lines:
        if line:
            text, inputs, outputs = line.rstrip("\r").split(",")
            whole, part = text.split(".")
            assert len(part) == 7
            seconds = (datetime.fromisoformat(f"{whole}+00:00") - EPOCH) // timedelta(seconds=1)
            parsed.append((seconds * 10**9 + int(part) * 100, int(inputs), int(outputs)))
    assert [one[0] for one in parsed] == sorted(one[0] for one in parsed)
    first = parsed[0][0]
    assert trace.meta.origin.first_ns == first
    got = columns(trace, "arrival_us", "input_tokens", "output_tokens", "source_row")
    assert got["arrival_us"] == [(ns - first + 500) // 1000 for ns, _, _ in parsed]
    assert got["input_tokens"] == [one[1] for one in parsed]
    assert got["output_tokens"] == [one[2] for one in parsed]
    assert got["source_row"] == list(range(2, rows + 2))
    assert "no time zone in file, read as UTC" in trace.meta.ledger.texts()


OLD = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-10-15 00:00:01,7,1\n"
NEW = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00.25+00:00,2,1500,40\n"


def test_images_of_the_multimodal_trace(tmp_path: Path) -> None:
    path = tmp_path / "mm.csv"
    path.write_text(NEW + "2024-10-15 00:00:02+00:00,0,90,\n")
    trace = read(path)
    assert columns(trace, "image_count", "input_tokens", "output_tokens", "arrival_us") == {
        "image_count": [2, 0],
        "input_tokens": [1500, 90],
        "output_tokens": [40, None],
        "arrival_us": [0, 1_750_000],
    }
    assert "image_count" in trace.meta.columns


def test_too_many_images_are_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "mm.csv"
    path.write_text(NEW + "2024-10-15 00:00:02+00:00,40000,90,1\n")
    with pytest.raises(BadRowError, match=r':3: field "NumImages" is "40000": must be at most 32767'):
        read(path)


def test_old_and_new_files_make_one_trace(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(OLD)
    (tmp_path / "new.csv").write_text(NEW)
    trace = read(tmp_path / "old.csv", tmp_path / "new.csv")
    assert columns(trace, "arrival_us", "image_count", "input_tokens") == {
        "arrival_us": [0, 750_000],
        "image_count": [2, None],
        "input_tokens": [1500, 7],
    }
    assert "1 row was earlier than the row before it; sorted" in trace.meta.ledger.texts()
    assert "image_count" not in read(tmp_path / "old.csv").meta.columns


def test_bad_times_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(OLD + "2024-02-30 00:00:00,1,1\n,1,1\n5,1,1\n2024-10-15 00:00:05,1\n")
    trace = read(path, on_bad_row="skip")
    assert [(line, field, value) for line, field, value, _ in rejected(trace)] == [
        (3, "TIMESTAMP", '"2024-02-30 00:00:00"'),
        (4, "TIMESTAMP", ""),
        (5, "TIMESTAMP", '"5"'),
        (6, "", ""),
    ]
    assert column(trace, "source_row") == [2]
    assert counts(trace) == (5, 1, 4)


def test_another_header_and_a_unit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("TIMESTAMP,ContextTokens\n")
    with pytest.raises(UsageError, match="no column GeneratedTokens; the file has TIMESTAMP, ContextTokens"):
        read(path, format="azure")
    path.write_text(OLD)
    with pytest.raises(UsageError, match="--time-unit does not apply"):
        read(path, time_unit="s")
