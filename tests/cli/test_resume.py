"""`views --resume` on the command line: a year that gets longer, a run that was cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from benchmarks.make_trace import Shape, make

from servescope.cli import main

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 260_000  # three row groups


def views(*arguments: object) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["views", *map(str, arguments)])
    assert stop.value.code == 0, arguments


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


def test_a_longer_year_gives_the_tables_of_a_full_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "all.parquet", Shape(ROWS, models=30, users=400, days=150))
    file = pq.ParquetFile(tmp_path / "all.parquet")
    # two files of whole row groups, as a year comes in months
    for name, groups in (("one", [0, 1]), ("two", [2])):
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", file.schema_arrow, compression="zstd") as writer:
            for group in groups:
                writer.write_table(file.read_row_group(group), row_group_size=1 << 20)
    one, two, sides = tmp_path / "one.parquet", tmp_path / "two.parquet", tmp_path / "all.cohorts.csv"
    views(one, "--cohorts", sides, "-o", tmp_path / "grown")
    assert (tmp_path / "grown" / "state").is_dir()
    views(one, two, "--cohorts", sides, "-o", tmp_path / "grown", "--resume")
    views(one, two, "--cohorts", sides, "-o", tmp_path / "full")
    assert tables(tmp_path / "grown") == tables(tmp_path / "full")
    assert len(tables(tmp_path / "full")) > 20
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["views", str(two), "-o", str(tmp_path / "grown"), "--resume"])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == "" and "Run without --resume" in said.err
    assert tables(tmp_path / "grown") == tables(tmp_path / "full")


@pytest.mark.parametrize("option", [["--resume"], ["--address", "auto"]])
def test_without_a_folder_there_is_nothing_to_resume(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["views", "nowhere.parquet", *option])
    assert stop.value.code == 2 and "name one with -o DIR" in capsys.readouterr().err
