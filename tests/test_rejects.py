"""Rejected rows: listed in order, cut with a word, never with values that may be text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from servescope.errors import Fault
from servescope.ledger import Rejects
from servescope.rejects import cut_note, rejects_table, without_values, write_rejects
from servescope.result import SMALL_ROWS

if TYPE_CHECKING:
    from pathlib import Path


def rejects(count: int) -> Rejects:
    """Faults of lines 1 to `count`."""
    made = Rejects()
    for line in range(1, count + 1):
        made.add(Fault("a.jsonl", line, "n", '"é"', "no number", "Mend it.", "bad_count"))
    return made


def test_few_rejects_are_listed_whole(tmp_path: Path) -> None:
    few = rejects(3)
    expected = [
        {
            "file": "a.jsonl",
            "line": n,
            "field": "n",
            "value": '"é"',
            "reason": "no number",
            "remedy": "Mend it.",
        }
        for n in (1, 2, 3)
    ]
    assert rejects_table(few).rows() == expected
    assert cut_note(few) == []
    path = write_rejects(few, tmp_path / "out.parquet")
    assert path == tmp_path / "out.parquet.rejects.jsonl"
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == expected


def test_many_rejects_are_cut_in_the_table_and_said_so(tmp_path: Path) -> None:
    many = rejects(SMALL_ROWS + 5)
    assert rejects_table(many).data.num_rows == SMALL_ROWS
    (note,) = cut_note(many)
    assert "2,005 rows were rejected" in note and "the first 2,000" in note
    path = write_rejects(many, tmp_path / "out")
    assert path is not None and len(path.read_text(encoding="utf-8").splitlines()) == SMALL_ROWS + 5


def test_a_folder_named_with_a_slash_has_its_file_beside_it(tmp_path: Path) -> None:
    assert write_rejects(rejects(1), f"{tmp_path}/report/") == tmp_path / "report.rejects.jsonl"


def test_no_rejects_leave_no_file(tmp_path: Path) -> None:
    assert write_rejects(Rejects(), tmp_path / "out") is None
    assert list(tmp_path.iterdir()) == []


def test_values_can_be_left_out() -> None:
    bare = without_values(rejects(2))
    assert [(fault.line, fault.value) for fault in bare.faults] == [(1, ""), (2, "")]
    assert bare.total == 2
