"""Prompts that hold only what is new become whole again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema
from servescope.errors import DataError, UsageError
from servescope.exports import export
from servescope.formats.delta import whole_prompts
from tests.formats.reading import column, read
from tests.reference import sessions
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from pathlib import Path

NULL = schema.NULL_INT32
HEAD = "t,id,parent,s,in,out\n"
TURNS = "10.0,100,,a,40,8\n15.5,101,100,a,16,10\n21.0,102,101,a,16,5\n"
MAP = {"arrival": "t", "input_tokens": "in", "output_tokens": "out"}
BY_SESSION = {**MAP, "session": "s"}
BY_PARENT = {**MAP, "source_id": "id", "parent": "parent"}

row = st.tuples(
    st.none() | st.integers(0, 99), st.none() | st.integers(0, 99), st.booleans(), st.floats(0, 1)
)


@given(st.lists(row, max_size=20))
def test_like_the_slow_twin(rows: list[tuple[int | None, int | None, bool, float]]) -> None:
    new, outputs = [one[0] for one in rows], [one[1] for one in rows]
    parent = [None if place > 0.8 else int(place * i) if i else None for i, (*_, place) in enumerate(rows)]
    orphan = [flag and above is None for (_, _, flag, _), above in zip(rows, parent, strict=True)]
    got = whole_prompts(
        np.array([NULL if one is None else one for one in new], np.int64),
        np.array([NULL if one is None else one for one in outputs], np.int64),
        np.array([schema.NULL_INT64 if one is None else one for one in parent], np.int64),
        np.array(orphan, np.bool_),
    )
    expected = sessions.whole_prompts(new, outputs, parent, orphan)
    assert [None if one == NULL else one for one in got.tolist()] == expected


@pytest.mark.parametrize("mapping", [BY_SESSION, BY_PARENT])
def test_case_26_in_reverse(tmp_path: Path, mapping: dict[str, str]) -> None:
    path = tmp_path / "delta.csv"
    path.write_text(HEAD + TURNS)
    trace = read(path, map=mapping, time_unit="s", delta_prompts=True)
    assert column(trace, "input_tokens") == [40, 64, 90]
    assert trace.meta.ledger.repaired == {"delta_prompts": 2}
    assert any("whole prompts are restored" in text for text in trace.meta.decisions)
    assert column(read(path, map=mapping, time_unit="s"), "input_tokens") == [40, 16, 16]


@needs_cases
def test_case_26_as_it_stands_is_whole() -> None:
    trace = read(CASES / "26-cumulative-turns.jsonl")
    assert column(trace, "input_tokens") == [40, 64, 90]
    assert column(trace, "turn") == [1, 2, 3]
    assert column(trace, "parent_id") == [None, 0, 1]
    assert sum(column(trace, "input_tokens")) == 194


@needs_cases
@pytest.mark.parametrize(
    ("name", "whole"),
    [("26-cumulative-turns.jsonl", [40, 64, 90]), ("27-orphan-parent.jsonl", [48, 64, None, 80, 96])],
)
def test_an_export_reads_back(tmp_path: Path, name: str, whole: list[int | None]) -> None:
    trace = read(CASES / name, on_bad_row="skip")
    path = tmp_path / "delta.csv"
    export(trace, path, to="csv", lossy=True, delta_prompts=True)
    same = {field: field for field in ("input_tokens", "output_tokens", "parent_id", "turn", "block_ids")}
    back = read(
        path,
        map={"arrival": "arrival_us", "source_id": "request_id", **same},
        time_unit="us",
        block_tokens=16,
        delta_prompts=True,
    )
    assert column(back, "input_tokens") == whole  # unknown where the history was shortened
    for kept in ("output_tokens", "parent_id", "session_id", "turn", "block_ids", "arrival_us"):
        assert column(back, kept) == column(trace, kept)


def test_without_its_history_a_prompt_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "delta.csv"
    path.write_text(HEAD + TURNS + "22,103,99,b,16,5\n23,104,103,b,16,5\n")
    trace = read(path, map=BY_PARENT, time_unit="s", delta_prompts=True)
    assert column(trace, "input_tokens") == [40, 64, 90, None, None]
    assert trace.meta.ledger.notes["delta_unknown"].count == 2


def test_a_rejected_row_leaves_no_silent_hole(tmp_path: Path) -> None:
    path = tmp_path / "delta.csv"
    path.write_text(HEAD + TURNS.replace("16,10", "x,10"))
    with pytest.raises(DataError, match="rejected rows: 1"):
        read(path, map=BY_SESSION, time_unit="s", delta_prompts=True, on_bad_row="skip")
    trace = read(path, map=BY_PARENT, time_unit="s", delta_prompts=True, on_bad_row="skip")
    assert column(trace, "input_tokens") == [40, None]


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "delta.csv"
    path.write_text(HEAD + TURNS)
    with pytest.raises(UsageError, match="needs input tokens and to know which request follows which"):
        read(path, map=MAP, time_unit="s", delta_prompts=True)
    path.write_text(HEAD + TURNS.replace("a,40", "a,0"))
    with pytest.raises(DataError, match="the restored prompt has 0 tokens"):
        read(path, map=BY_SESSION, time_unit="s", delta_prompts=True)
    path.write_text(HEAD + TURNS.replace("a,40", "a,2147483647"))
    with pytest.raises(DataError, match="the restored prompt has 2,147,483,671 tokens"):
        read(path, map=BY_SESSION, time_unit="s", delta_prompts=True)
