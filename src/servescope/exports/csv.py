"""CSV with all canonical columns: nulls empty, texts quoted, block ids as JSON lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from servescope import schema
from servescope.exports import texts
from servescope.exports.target import Export

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Trace


def write(trace: Trace, path: Path) -> list[str]:
    """A header and one line a request; times in microseconds since the first."""
    written = pa.schema([(column.name, _kind(column.arrow)) for column in schema.COLUMNS])
    with pacsv.CSVWriter(str(path), written) as writer:
        for _, table in texts.pieces(trace, schema.NAMES):
            writer.write_table(_flat(table, written))
    notes = ["a CSV holds the rows alone: clock, block size, decisions and ledger stay behind"]
    if trace.meta.block_tokens:
        size = trace.meta.block_tokens
        notes.append(f"block ids stand for {size} tokens: read it back with --block-tokens {size}")
    return notes


def _kind(arrow: pa.DataType) -> pa.DataType:
    return pa.string() if arrow in (schema.CATEGORY, schema.BLOCKS) else arrow


def _flat(table: pa.Table, written: pa.Schema) -> pa.Table:
    columns = []
    for name in written.names:
        column = table.column(name)
        if schema.BY_NAME[name].arrow == schema.BLOCKS:
            column = texts.block_lists(column)
        columns.append(column.cast(written.field(name).type))
    return pa.table(columns, schema=written)


EXPORT = Export("csv", "CSV with all canonical columns", frozenset(schema.NAMES), write, takes_delta=True)
