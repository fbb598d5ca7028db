"""Tables read when asked for: shapes without reading, few large ones held, unreadable ones refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from servescope.errors import DataError
from servescope.report import stored
from servescope.report.stored import Shape, Stored
from servescope.result import Table, write_tables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = {"a": 3, "b": 12, "c": 12, "d": 12}
    write_tables(
        {n: Table(n, pa.table({"x": range(k)}), f"A row of {n}.") for n, k in sizes.items()}, tmp_path
    )
    return tmp_path


def test_shapes_are_known_before_a_table_is_read(folder: Path) -> None:
    read: list[str] = []

    def adapt(table: Table) -> Table:
        read.append(table.name)
        return table

    tables = Stored(folder, adapt)
    assert tables.shapes["b"] == Shape(12, ("x",), "A row of b.")
    assert list(tables) == ["a", "b", "c", "d"] and len(tables) == 4 and "e" not in tables
    assert read == []
    assert tables["a"].data.num_rows == 3 and tables["a"].doc == "A row of a."
    assert read == ["a"]


def test_only_the_last_large_tables_are_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LARGE_ROWS", 10)
    read: list[str] = []
    tables = Stored(folder, lambda table: read.append(table.name) or table)
    for name in ("a", "b", "c", "b", "d", "b", "c", "a"):
        assert tables[name].name == name
    assert read == ["a", "b", "c", "d", "c"]  # d takes the place of c, which was used before b


def test_an_unreadable_table_is_refused_by_name(folder: Path) -> None:
    (folder / "e.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(DataError, match=r"e\.parquet: a table cannot be read"):
        Stored(folder, lambda table: table)
    with pytest.raises(KeyError):
        (folder / "e.parquet").unlink()
        Stored(folder, lambda table: table)["e"]
