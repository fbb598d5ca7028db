"""Assembling chunks: like sorting a list of rows, whatever the chunks and the bad rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema
from servescope.errors import BadRowError, DataError, Fault
from servescope.formats import assemble
from servescope.formats.assemble import Assembler, BlockSpool, gather_blocks
from servescope.formats.format import Chunk, Context, ReadOptions
from servescope.ledger import Rejects
from tests.reference import assembling

if TYPE_CHECKING:
    from servescope.trace import Trace

NAMES = ["request_id", "arrival_us", "completed_us", "source_row", "input_tokens", "model", "block_ids"]
NAMES += ["session_id", "parent_id", "turn"]
NULL = schema.NULL_INT64
BAD = Fault("x", 0, "", "", "bad", "", "bad")

row = st.fixed_dictionaries(
    {
        "ns": st.integers(-5_000, 5_000) | st.integers(0, 3).map(lambda n: n * 1_000_000),
        "end": st.none() | st.integers(0, 10**7),
        "tokens": st.none() | st.integers(1, 500),
        "model": st.none() | st.sampled_from(["a", "b", "ü"]),
        "blocks": st.none() | st.lists(st.integers(0, 2**64 - 1), max_size=3),
        "session": st.none() | st.sampled_from(["s", "t", "u"]),
        "bad": st.booleans(),
    }
)


def as_chunk(rows: list[dict[str, Any]], base: int, *, arrow: bool) -> Chunk:
    """The rows as a format would hand them over, times counted from `base`."""
    ends = [NULL if one["end"] is None else one["end"] - base for one in rows]
    tokens = [schema.NULL_INT32 if one["tokens"] is None else one["tokens"] for one in rows]
    models: Any = [one["model"] for one in rows]
    return Chunk(
        np.array([one["line"] for one in rows], np.int64),
        {
            "time_ns": np.array([one["ns"] - base for one in rows], np.int64),
            "completed_ns": np.array(ends, np.int64),
            "input_tokens": np.array(tokens, np.int32),
            "model": pa.array(models, pa.string()) if arrow else models,
            "session_key": [one["session"] for one in rows],
        },
        base,
        np.array([block for one in rows for block in one["blocks"] or []], np.uint64),
        np.array([-1 if one["blocks"] is None else len(one["blocks"]) for one in rows], np.int32),
        {index: BAD for index, one in enumerate(rows) if one["bad"]},
    )


def assembled(chunks: list[Chunk], **options: Any) -> Trace:
    context = Context(ReadOptions(**options))
    collected = Assembler(context)
    for chunk in chunks:
        collected.add(chunk, "x")
        context.ledger.read += chunk.rows
        context.ledger.kept += chunk.rows - len(chunk.faults)
    return collected.trace("test", [], Rejects())


def rows_of(trace: Trace, names: list[str]) -> list[dict[str, Any]]:
    return pa.concat_tables(list(trace.arrow(names))).to_pylist()  # type: ignore[no-any-return]


@given(st.lists(st.tuples(st.lists(row, max_size=6), st.integers(-100, 100), st.booleans()), max_size=5))
def test_like_sorting_a_list(pieces: list[tuple[list[dict[str, Any]], int, bool]]) -> None:
    line = 1
    for rows, _, _ in pieces:
        for one in rows:
            one["line"] = line
            line += 1
    good = [one for rows, _, _ in pieces for one in rows if not one["bad"]]
    if not good:
        return
    trace = assembled([as_chunk(rows, base, arrow=arrow) for rows, base, arrow in pieces])
    expected = assembling.trace(good)
    if all(one["blocks"] is None for one in good):
        assert "block_ids" not in trace.meta.columns
    assert rows_of(trace, NAMES) == [{name: one[name] for name in NAMES} for one in expected]
    assert trace.meta.origin.first_ns == min(one["ns"] for one in good)
    times = [one["ns"] for one in good]
    early = sum(b < a for a, b in itertools.pairwise(times))
    assert trace.meta.ledger.repaired == ({"sorted": early} if early else {})
    shared = [n for n in (times.count(ns) for ns in set(times)) if n > 1]
    note = trace.meta.ledger.notes.get("shared_timestamps")
    assert (note.count if note else 0) == len(shared)
    assert note is None or f" by {sum(shared)} requests" in note.text()


def one_row(line: int, **columns: Any) -> Chunk:
    return Chunk(
        np.array([line], np.int64),
        {name: np.array([value], np.int64) for name, value in columns.items()},
    )


def test_a_parent_must_come_earlier() -> None:
    chunks = [
        one_row(1, time_ns=5, own_key=1, parent_key=2),
        one_row(2, time_ns=9, own_key=2, parent_key=NULL),
    ]
    with pytest.raises(BadRowError, match="x:1: row: its stated parent does not arrive before it"):
        assembled(chunks)
    trace = assembled(chunks, on_bad_row="skip")
    assert rows_of(trace, ["source_row", "arrival_us", "parent_id"]) == [
        {"source_row": 2, "arrival_us": 0, "parent_id": None}
    ]
    assert trace.meta.ledger.dropped == {"parent_not_earlier": 1}
    assert trace.meta.ledger.balanced()


def test_sources_too_far_apart_are_refused() -> None:
    far = one_row(1, time_ns=0)
    far.base_ns = 2**62
    with pytest.raises(DataError, match="146 years apart"):
        assembled([one_row(1, time_ns=0), far])


def test_a_base_beyond_64_bits_is_kept() -> None:
    chunk = one_row(1, time_ns=0)
    chunk.base_ns = 10**25
    assert assembled([chunk]).meta.origin.first_ns == 10**25


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=4), max_size=6), st.randoms())
def test_gather_blocks(rows: list[list[int]], rng: Any) -> None:
    order = list(range(len(rows)))
    rng.shuffle(order)
    values = np.array([block for one in rows for block in one], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    got, bounds = gather_blocks(values, offsets, np.array(order, np.int64))
    assert [got[a:b].tolist() for a, b in itertools.pairwise(bounds)] == [rows[i] for i in order]


def test_blocks_spill_to_a_file_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "SPILL_BYTES", 64)
    spool = BlockSpool()
    pieces = [np.arange(i, i + 5, dtype=np.uint64) + np.uint64(2**63) for i in range(0, 40, 5)]
    for piece in pieces:
        spool.add(piece)
    got = spool.values()
    assert isinstance(got, np.memmap)
    assert got.tolist() == [2**63 + i for i in range(40)]
