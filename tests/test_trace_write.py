"""Writing canonical Parquet: encodings, shards, progress, and nothing after an interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from servescope import schema
from servescope.trace import Trace, TraceMeta
from servescope.trace_write import META_KEY, ROWS_KEY, write_canonical
from tests.formats.test_canonical import trace_of

if TYPE_CHECKING:
    from pathlib import Path


def test_types_encodings_and_metadata(tmp_path: Path) -> None:
    trace = trace_of(100, part_rows=40)
    write_canonical(trace, tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    assert file.schema_arrow.remove_metadata().equals(schema.arrow_schema())
    stored = file.schema_arrow.metadata
    assert msgspec.json.decode(stored[META_KEY], type=TraceMeta) == trace.meta
    assert stored[ROWS_KEY] == b"100"
    assert [file.metadata.row_group(i).num_rows for i in range(3)] == [40, 40, 20]
    group = file.metadata.row_group(0)
    leaves = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    for name in ("arrival_us", "block_ids.list.element"):
        assert "DELTA_BINARY_PACKED" in leaves[name].encodings
        assert not any("DICTIONARY" in encoding for encoding in leaves[name].encodings)
    assert {column.compression for column in leaves.values()} == {"ZSTD"}


def test_progress_counts_rows(tmp_path: Path) -> None:
    seen: list[int] = []
    write_canonical(trace_of(100, part_rows=40), tmp_path / "a.parquet", progress=seen.append)
    assert seen == [40, 80, 100]


def test_an_empty_trace_is_a_file_without_rows(tmp_path: Path) -> None:
    write_canonical(trace_of(0), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.num_rows == 0 and table.column_names == list(schema.NAMES)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("shard_rows", [None, 20])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_interrupt_leaves_nothing(
    tmp_path: Path, error: type[BaseException], shard_rows: int | None, after: int
) -> None:
    trace = trace_of(60, part_rows=20)
    part = trace.parts[after]

    class Failing:
        rows = part.rows

        def arrow(self, columns: Any) -> Any:
            raise error

    broken = Trace(trace.meta, (*trace.parts[:after], Failing(), *trace.parts[after + 1 :]))
    with pytest.raises(error):
        write_canonical(broken, tmp_path / "out", shard_rows=shard_rows)
    assert list(tmp_path.iterdir()) == []
