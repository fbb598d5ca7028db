"""BurstGPT: both releases, alone and together, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from servescope.errors import BadRowError, UsageError
from tests.formats.reading import columns, counts, read, rejected

if TYPE_CHECKING:
    from pathlib import Path

OLD = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
NEW = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_the_older_release(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(OLD + "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,,1087,API log\n")
    trace = read(path)
    assert columns(trace, "arrival_us", "status", "request_type", "output_tokens") == {
        "arrival_us": [0, 40_500_000],
        "status": ["ok", "unknown"],
        "request_type": ["Conversation log", "API log"],
        "output_tokens": [18, None],
    }
    assert {"completed_us", "session_id", "turn", "parent_id"}.isdisjoint(trace.meta.columns)


def test_both_releases_make_one_trace(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(OLD + "5,ChatGPT,1,1,2,API log\n")
    (tmp_path / "new.csv").write_text(NEW + "6,s,0.5,GPT-4,2,2,4,API log\n7,s,,GPT-4,3,2,5,API log\n")
    trace = read(tmp_path / "old.csv", tmp_path / "new.csv")
    assert columns(trace, "input_tokens", "session_id", "completed_us", "turn") == {
        "input_tokens": [1, 2, 3],
        "session_id": [None, 0, 0],
        "completed_us": [None, 1_500_000, None],
        "turn": [None, 1, 2],
    }


def test_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(
        NEW + "1,s,-1,M,1,1,2,L\n2,s,1,M,0,1,1,L\n3,s,1,M,1,1,x,L\nx,s,1,M,1,1,2,L\n5,s,1,M,1,1,2,L\n"
    )
    trace = read(path, on_bad_row="skip")
    assert [(line, field) for line, field, _, _ in rejected(trace)] == [
        (2, "Elapsed time"),
        (3, "Request tokens"),
        (4, "Total tokens"),
        (5, "Timestamp"),
    ]
    assert counts(trace) == (5, 1, 4)
    with pytest.raises(BadRowError, match=r':2: field "Elapsed time" is "-1": a duration of at least 0'):
        read(path)


def test_totals_are_checked_on_good_rows_alone_and_lines_are_few(tmp_path: Path) -> None:
    path = tmp_path / "totals.csv"
    path.write_text(OLD + "0,M,0,1,9,L\n" + "".join(f"{i},M,1,1,3,L\n" for i in range(8)) + "9,M,1,1,2,L\n")
    note = read(path, on_bad_row="skip").meta.ledger.notes["inconsistent_total"]
    assert (note.count, note.lines) == (8, [3, 4, 5, 6, 7])
    assert note.text().startswith('8 rows with "Total tokens" not the sum')


def test_another_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("Timestamp,Model\n1,M\n")
    with pytest.raises(UsageError, match="no column Request tokens, Response tokens, Total tokens, Log Type"):
        read(path, format="burstgpt")
