"""Tables as files: whatever a column is written as, it comes back as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope import result
from servescope.result import Table, read_table, write_tables

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000
RANDOM = np.random.default_rng(5)
KEYS = pa.array([f"user-{i:06}@{i % 7}" for i in range(80_000)])  # more bytes than a dictionary may have
COLUMNS = {
    "distinct": pa.array(RANDOM.random(ROWS)),
    "mostly_null": pa.array(RANDOM.random(ROWS), mask=RANDOM.random(ROWS) < 0.9),
    "repeating": pa.array(np.array([0.1, -0.0, np.inf])[RANDOM.integers(0, 3, ROWS)]),
    "not_a_number": pa.array(np.full(ROWS, np.nan)),
    "unknown": pa.nulls(ROWS, pa.float64()),
    "count": pa.array(RANDOM.integers(-(2**62), 2**62, ROWS), mask=RANDOM.random(ROWS) < 0.1),
    "small": pa.array(RANDOM.integers(0, 2**31, ROWS).astype(np.int32)),
    "text": pa.array([None if i % 9 == 0 else f"text {i % 50}" for i in range(ROWS)]),
    "whether": pa.array(RANDOM.random(ROWS) < 0.5),
    "model": pa.DictionaryArray.from_arrays(
        pa.array(RANDOM.integers(0, 3, ROWS).astype(np.int32), mask=RANDOM.random(ROWS) < 0.1),
        pa.array(["a", "b", "c"]),
    ),
    "user": pa.DictionaryArray.from_arrays(
        pa.array(np.sort(RANDOM.integers(0, len(KEYS), ROWS)).astype(np.int32)), KEYS
    ),
}


def _plain(data: pa.Table) -> pa.Table:
    """Without dictionaries, which a file does not keep as they were."""
    decoded = {
        f.name: data[f.name].cast(f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in data.schema
    }
    return pa.table(decoded)


@pytest.mark.parametrize("rows", [0, 1, ROWS])
def test_a_written_table_comes_back(rows: int, tmp_path: Path) -> None:
    """Values bit for bit, types, nulls and the sentence about it."""
    table = Table("made", pa.table(COLUMNS).slice(0, rows), "What a row is.")
    write_tables({"made": table}, tmp_path)
    found = read_table(tmp_path / "made.parquet")
    assert found.doc == table.doc
    assert found.data.schema == table.data.schema
    for name in COLUMNS:
        ours, theirs = (_plain(one.data)[name] for one in (table, found))
        assert ours.is_null().equals(theirs.is_null()), name
        if pa.types.is_floating(ours.type):
            ours, theirs = (np.asarray(one.drop_null()).view(np.int64) for one in (ours, theirs))
            assert np.array_equal(ours, theirs), name
        else:
            assert ours.equals(theirs), name


def test_columns_are_written_as_their_values_ask(tmp_path: Path) -> None:
    """A dictionary for what repeats, none where every value is another or the dictionary is large."""
    write_tables({"made": Table("made", pa.table(COLUMNS))}, tmp_path)
    group = pq.ParquetFile(tmp_path / "made.parquet").metadata.row_group(0)
    found = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    coded = {name for name, column in found.items() if "RLE_DICTIONARY" in column.encodings}
    assert coded == {"repeating", "not_a_number", "unknown", "text", "model"}
    assert "BYTE_STREAM_SPLIT" in found["distinct"].encodings
    assert "BYTE_STREAM_SPLIT" in found["mostly_null"].encodings
    assert "DELTA_BINARY_PACKED" in found["count"].encodings
    assert found["count"].statistics.min == COLUMNS["count"].drop_null().to_numpy().min()


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    """The layout follows from a sample of rows, which are the same always."""
    table = Table("made", pa.table(COLUMNS))
    for name in ("one", "two"):
        write_tables({"made": table}, tmp_path / name)
    assert (tmp_path / "one/made.parquet").read_bytes() == (tmp_path / "two/made.parquet").read_bytes()
    assert result.SAMPLE_ROWS < ROWS
