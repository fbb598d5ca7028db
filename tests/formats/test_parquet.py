"""Footers: statistics of row groups, also where they are broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope.errors import DataError
from servescope.formats.parquet import open_parquet
from servescope.formats.source import open_source

if TYPE_CHECKING:
    from pathlib import Path

# how a column of 64-bit integers begins in a footer (Thrift, compact): field 1, its type, then a list; a
# footer of version 2 begins so, too
INT64_ENTRY, BOOLEAN_ENTRY = b"\x15\x04\x19", b"\x15\x00\x19"


def write(path: Path) -> None:
    """Three row groups of two columns of integers and one of texts."""
    known = pa.array([5, 1, None, None, None, None, 7], pa.int64())
    texts = pa.array(list("abcdefg"))
    pq.write_table(pa.table({"a": pa.array(range(7)), "t": texts, "b": known}), path, row_group_size=3)


def test_statistics_and_bounds(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    file = open_parquet(open_source(str(tmp_path / "a.parquet")))
    assert [file.bounds(group, ["b", "a"]) for group in range(3)] == [
        {"b": (1, 5), "a": (0, 2)},
        {"b": None, "a": (3, 5)},
        {"b": (7, 7), "a": (6, 6)},
    ]
    stated = [file.statistics(group, ["b"])["b"] for group in range(3)]
    assert [one.null_count for one in stated if one is not None] == [1, 3, 0]


@pytest.mark.parametrize("entry", range(6))
def test_a_broken_entry_is_an_error_of_its_group(tmp_path: Path, entry: int) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    data = path.read_bytes()
    assert data.count(INT64_ENTRY) == 1 + 6
    place = -1
    for _ in range(1 + entry + 1):
        place = data.index(INT64_ENTRY, place + 1)
    path.write_bytes(data[:place] + BOOLEAN_ENTRY + data[place + 3 :])
    file = open_parquet(open_source(str(path)))
    for group in range(3):
        if group == entry // 2:
            with pytest.raises(DataError, match=r"a\.parquet: broken Parquet file"):
                file.statistics(group, ["a", "b"])
        else:
            assert file.statistics(group, ["a", "b"]).keys() == {"a", "b"}
