"""Results: named Arrow tables with the facts that say where they come from."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from servescope.files import atomic

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import polars as pl

    from servescope.ledger import Ledger
from servescope.version import VERSION

WRITERS = 4  # tables that are written at once
SAMPLE_ROWS = 4_096  # rows that tell whether a column's numbers come again …
REPEATED = 2  # … so many times on average
DICTIONARY_BYTES = 1 << 20  # Parquet gives up a larger dictionary half-way, and keeps what it has of it
SMALL_ROWS = 2_000  # tables up to this size are printed in the JSON document


@dataclass(frozen=True)
class Table:
    """One result table.

    name   fixed name (design, section 6)
    data   the rows
    doc    one sentence: what a row is and how the numbers are defined
    """

    name: str
    data: pa.Table
    doc: str = ""

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.data

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame (extra `pandas`)."""
        return self.data.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars frame (extra `polars`)."""
        import polars

        return polars.from_arrow(self.data)  # type: ignore[return-value]

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts, nulls as None."""
        return self.data.to_pylist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Result:
    """What one command found.

    command  the verb
    inputs   sources and parameters that shaped the numbers
    ledger   of the trace that was read
    notes    sentences for the reader: facts about the source, limits, choices
    tables   name -> table
    """

    command: str
    inputs: dict[str, Any]
    ledger: Ledger
    notes: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Table:
        """The table of that name. Raises KeyError."""
        return self.tables[name]

    def document(self) -> dict[str, Any]:
        """The JSON document of `--json`; tables over `SMALL_ROWS` rows are left to Parquet."""
        small = {n: t for n, t in self.tables.items() if t.data.num_rows <= SMALL_ROWS}
        return {
            "command": self.command,
            "version": VERSION,
            "inputs": self.inputs,
            "ledger": {
                "read": self.ledger.read,
                "kept": self.ledger.kept,
                "dropped": dict(sorted(self.ledger.dropped.items())),
                "repaired": dict(sorted(self.ledger.repaired.items())),
            },
            "notes": self.notes,
            "tables": {name: table.rows() for name, table in small.items()},
        }

    def to_json(self) -> bytes:
        """`document` as JSON; NaN and infinities become null, bytes are the same for equal results."""
        return msgspec.json.encode(self.document())


def write_tables(tables: dict[str, Table], folder: Path) -> None:
    """Write each table to `folder/NAME.parquet`, a few at once; its `doc` travels in the schema metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    heaviest = sorted(tables.items(), key=lambda item: -item[1].data.nbytes)
    with ThreadPoolExecutor(min(WRITERS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(lambda item: _write(folder / f"{item[0]}.parquet", item[1]), heaviest):
            pass  # an error of one is raised, those not yet begun are dropped


def _write(path: Path, table: Table) -> None:
    data = table.data.replace_schema_metadata({b"doc": table.doc.encode()})
    with atomic(path) as part:
        pq.write_table(data, part, compression="zstd", **_layout(data))


def _layout(data: pa.Table) -> dict[str, Any]:
    """How the columns of a table are written, for `write_table`: what takes least time.

    Whole numbers as differences, other numbers by the places of their bytes unless they repeat: less than
    two thirds of the time and four fifths of the bytes of a dictionary for each (tables of 50 M requests).
    No least and greatest text: to compare them takes as long as the rest, and rows are in no order of theirs.
    """
    rows = pa.array(np.arange(0, data.num_rows, -(-data.num_rows // SAMPLE_ROWS) or 1))
    numbers, encodings = [], {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        kind = column.type
        if not (pa.types.is_dictionary(kind) or pa.types.is_string(kind)):
            numbers.append(name)
        if pa.types.is_integer(kind):
            encodings[name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_dictionary(kind) and column.num_chunks and _is_large(column.chunk(0).dictionary):
            encodings[name] = "PLAIN"
        elif pa.types.is_floating(kind) and not _repeats(column.take(rows).drop_null()):
            encodings[name] = "BYTE_STREAM_SPLIT"
    repeating = [name for name in data.column_names if name not in encodings]
    return {"use_dictionary": repeating, "column_encoding": encodings, "write_statistics": numbers}


def _is_large(texts: pa.Array) -> bool:
    return bool(texts.nbytes > DICTIONARY_BYTES)


def _repeats(sample: pa.ChunkedArray) -> bool:
    return bool(REPEATED * pc.count_distinct(sample).as_py() <= len(sample))


def read_table(path: Path) -> Table:
    """Read one such table."""
    data = pq.read_table(path, partitioning=None)
    doc = (data.schema.metadata or {}).get(b"doc", b"").decode()
    return Table(path.stem, data.replace_schema_metadata(None), doc)
