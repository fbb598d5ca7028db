"""Canonical Parquet: lossless there and back, shards, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope import schema
from servescope.arrays import Columns
from servescope.errors import DataError, FormatError
from servescope.formats.read import read_trace
from servescope.ledger import Ledger
from servescope.trace import Origin, SourceFact, Trace, TraceMeta
from servescope.trace_write import META_KEY, write_canonical
from tests.shared import CASES, DATA, needs_cases, needs_data

if TYPE_CHECKING:
    from pathlib import Path


def trace_of(rows: int, *, part_rows: int | None = None, **meta: object) -> Trace:
    """A trace with every column, nulls in all that may have them."""
    random = np.random.default_rng(rows)
    values: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    for column in schema.COLUMNS:
        if column.name in schema.CATEGORIES:
            texts[column.name] = [f"{column.name}-{i}" for i in range(5)]
            values[column.name] = random.integers(-1, 5, rows).astype(np.int32)
        elif column.dtype is not None:
            drawn = random.integers(-9, 2**15 - 1, rows).astype(column.dtype)
            hole = random.random(rows) < 0.3
            values[column.name] = (
                np.where(hole, column.null, drawn).astype(column.dtype) if column.nullable else drawn
            )
    values["request_id"] = np.arange(rows)
    values["arrival_us"] = np.sort(random.integers(0, 10**12, rows))
    lengths = random.integers(0, 4, rows)
    null = random.random(rows) < 0.2
    lengths[null] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    blocks = random.integers(0, 2**64, offsets[-1], dtype=np.uint64)
    ids = pa.array([None if i % 3 == 0 else f"id {i}" for i in range(rows)], pa.string())
    columns = Columns(rows, values, texts, ids, offsets, blocks, null)
    facts: dict[str, object] = {
        "format": "made",
        "sources": [SourceFact("a.jsonl", 12, "ff")],
        "decisions": ["one", "two"],
        "origin": Origin("calendar", 2**70 + 1),
        "columns": columns.present(),
        "ledger": Ledger(read=rows, kept=rows, repaired={"sorted": 1}),
        "block_tokens": 16,
        "chained": False,
        "session_names": ["é", ""],
    }
    made = Trace(TraceMeta(**(facts | meta)), columns.parts())
    if part_rows:
        parts = tuple(
            type(made.parts[0])(columns, i, min(i + part_rows, rows)) for i in range(0, rows, part_rows)
        )
        made = Trace(made.meta, parts)
    return made


def rows_of(trace: Trace) -> list[dict[str, object]]:
    """All rows as dicts."""
    return [row for table in trace.arrow() for row in table.to_pylist()]


@settings(max_examples=25)
@given(st.integers(0, 60), st.integers(1, 25))
def test_write_read_write_is_lossless(
    tmp_path_factory: pytest.TempPathFactory, rows: int, part_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("canonical")
    trace = trace_of(rows, part_rows=part_rows)
    write_canonical(trace, folder / "a.parquet")
    again = read_trace([str(folder / "a.parquet")])
    assert again.meta == trace.meta
    assert [part.rows for part in again.parts] == [part.rows for part in trace.parts]
    assert rows_of(again) == rows_of(trace)
    write_canonical(again, folder / "b.parquet")
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()
    for one, other in zip(again.batches(schema.NAMES), trace.batches(schema.NAMES), strict=True):
        for name, array in one.columns.items():
            assert np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f"), name
        assert np.array_equal(one.block_values, other.block_values)
        assert np.array_equal(one.block_null, other.block_null)


@needs_data
def test_a_real_trace_is_lossless(tmp_path: Path) -> None:
    trace = read_trace([str(DATA / "mooncake_synthetic.jsonl")])
    write_canonical(trace, tmp_path / "a.parquet")
    again = read_trace([str(tmp_path / "a.parquet")])
    assert again.meta == trace.meta
    assert rows_of(again) == rows_of(trace)


@needs_cases
def test_64_bit_ids_are_unchanged(tmp_path: Path) -> None:
    trace = read_trace([str(CASES / "15-hash64.jsonl")])
    write_canonical(trace, tmp_path / "a.parquet")
    blocks = pq.read_table(tmp_path / "a.parquet").column("block_ids").to_pylist()
    assert blocks[1] == [4294967297, 9007203549708289]
    assert blocks[3] == [18446744073709551615, 9223372036854775808]
    assert len({block for row in blocks for block in row}) == 7


def test_shards_are_one_trace(tmp_path: Path) -> None:
    trace = trace_of(50, part_rows=7)
    write_canonical(trace, tmp_path / "shards", shard_rows=14)
    shards = sorted((tmp_path / "shards").iterdir())
    assert [shard.name for shard in shards] == [f"part-0000{i}.parquet" for i in range(4)]
    again = read_trace([str(tmp_path / "shards")])
    assert again.meta == trace.meta and rows_of(again) == rows_of(trace)
    write_canonical(again, tmp_path / "again", shard_rows=14)
    assert [s.read_bytes() for s in sorted((tmp_path / "again").iterdir())] == [
        s.read_bytes() for s in shards
    ]
    assert rows_of(read_trace([str(shard) for shard in shards])) == rows_of(trace)


def test_a_missing_shard_is_noticed(tmp_path: Path) -> None:
    for lost in ("part-00000.parquet", "part-00001.parquet", "part-00003.parquet"):
        write_canonical(trace_of(50, part_rows=7), tmp_path / lost, shard_rows=14)
        (tmp_path / lost / lost).unlink()
        with pytest.raises(DataError, match=r"request_id \d+ to|A shard is missing"):
            read_trace([str(tmp_path / lost)])


def test_shards_of_different_traces_are_refused(tmp_path: Path) -> None:
    write_canonical(trace_of(10), tmp_path / "a.parquet")
    write_canonical(trace_of(10, block_tokens=32), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match="differ in their metadata"):
        read_trace([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    write_canonical(trace_of(40), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    for keep in (5, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.parquet").write_bytes(data[:keep])
        with pytest.raises(DataError, match=r"cut.parquet: broken Parquet file"):
            read_trace([str(tmp_path / "cut.parquet")])


def test_foreign_columns_and_metadata_are_refused(tmp_path: Path) -> None:
    write_canonical(trace_of(10), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    place = table.column_names.index("turn")
    wide = table.set_column(place, "turn", table.column("turn").cast(pa.int64()))
    meta = table.schema.metadata
    changes = {
        "column turn is missing": table.drop_columns(["turn"]),
        "column turn is int64, int32 was expected": wide,
        "in another order": table.select(list(reversed(table.column_names))),
        "the servescope metadata is broken": table.replace_schema_metadata({**meta, META_KEY: b"{"}),
        "layout version 9, this release reads 1": table.replace_schema_metadata(
            {**meta, META_KEY: meta[META_KEY].replace(b'"version":1', b'"version":9')}
        ),
    }
    for message, changed in changes.items():
        pq.write_table(changed, tmp_path / "b.parquet")
        with pytest.raises(DataError, match=message):
            read_trace([str(tmp_path / "b.parquet")])


@pytest.mark.parametrize("statistics", [True, False])
def test_broken_order_is_refused(tmp_path: Path, statistics: bool) -> None:
    write_canonical(trace_of(10), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    back = pa.concat_tables([table.slice(5), table.slice(0, 5)])
    required = [
        pa.field("request_id", pa.int64(), nullable=False),
        pa.field("arrival_us", pa.int64(), nullable=False),
    ]
    late = table.set_column(2, required[1], pa.array(np.arange(10)[::-1].copy()))
    for message, changed in {"request_id": back, "arrival_us goes back": late}.items():
        pq.write_table(changed, tmp_path / "b.parquet", row_group_size=5, write_statistics=statistics)
        with pytest.raises(DataError, match=message):
            rows_of(read_trace([str(tmp_path / "b.parquet")]))
