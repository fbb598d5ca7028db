"""Chutes files in any order as one trace in time order: DuckDB's external sort, bounded memory."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from servescope.errors import DataError
from servescope.formats.chutes import trace_of
from servescope.formats.chutes_columns import ALL_SOURCES
from servescope.formats.chutes_prologue import count_early, layout_of, note_sorted
from servescope.formats.format import Context, ReadOptions
from servescope.formats.parquet import open_parquet
from servescope.formats.source import Source, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servescope.formats.parquet import ParquetFile
    from servescope.trace import Trace

MEMORY = "1GB"  # of the sort; the rest spills beside the target
GROUP_ROWS = 122_880


@contextmanager
def sorted_copy(
    names: Sequence[str], options: ReadOptions | None = None, *, folder: str | Path | None = None
) -> Iterator[Trace]:
    """The trace of Chutes files that are not in time order, valid inside the `with` block.

    names   the files
    folder  where the temporary sorted copy may lie (the target's folder: it needs room for a copy)

    Rows are ordered by `started_at`, `invocation_id`, then as they stand; `source_row` and messages
    name the original rows. The sources carry the SHA-256 of whole files.

    Raises what reading the files in place raises, but for the order.
    """
    options = options or ReadOptions()
    files = [open_parquet(open_source(name)) for name in names]
    early = count_early(files, Context(options))  # a bad row stops here, before the long sort
    with tempfile.TemporaryDirectory(prefix=".servescope-sort-", dir=folder) as temporary:
        copy = Path(temporary) / "sorted.parquet"
        _sort(files, copy, Path(temporary))
        context = Context(options)
        if early:
            note_sorted(context, early)
        sources = [file.source.digest() for file in files]
        yield trace_of([open_parquet(Source(str(copy), copy))], sources, context, origins=names)


def _sort(files: list[ParquetFile], copy: Path, spill: Path) -> None:
    have = layout_of(files, Context(ReadOptions(time_unit="us")), []).names
    wanted = [name for name in have if name in ALL_SOURCES or name == "started_at"]
    paths = [str(file.source.path) for file in files]
    ties = ["invocation_id"] if "invocation_id" in have else []
    order = ", ".join(["started_at", *ties, "source_file", "source_row"])
    query = f"""
        COPY (
            SELECT {", ".join(f'"{name}"' for name in wanted)},
                   file_row_number + 1 AS source_row,
                   CAST(list_position(?, filename) - 1 AS INTEGER) AS source_file
            FROM read_parquet(?, file_row_number = true, filename = true)
            ORDER BY {order}
        ) TO '{str(copy).replace("'", "''")}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS})
    """
    try:
        with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(spill)}) as connection:
            connection.execute(query, [paths, paths])
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise DataError(
            f"{files[0].source.name}: sorting failed ({first}). It needs room for a copy beside the target."
        ) from error
