"""Writing a trace as canonical Parquet: one file or a folder of shards, whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from servescope import schema
from servescope.files import atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from servescope.trace import Trace, TraceMeta

META_KEY = b"servescope"
ROWS_KEY = b"servescope_rows"  # of the whole trace: a missing last shard would not show otherwise
ZSTD_LEVEL = 3
NUMBERS = (
    "request_id", "arrival_us", "completed_us", "source_row", "session_id", "parent_id", schema.PREFIX_TOKENS,
)  # fmt: skip
DELTA = dict.fromkeys((*NUMBERS, "block_ids.list.element"), "DELTA_BINARY_PACKED")


def encode_meta(meta: TraceMeta) -> bytes:
    """Metadata as the JSON that is stored in the Parquet schema."""
    return msgspec.json.encode(meta)


def _writer(path: Path, written: pa.Schema) -> pq.ParquetWriter:
    plain = set(DELTA) | {"block_ids"}
    return pq.ParquetWriter(
        path,
        written,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=[name for name in written.names if name not in plain],
        column_encoding={k: v for k, v in DELTA.items() if k.split(".")[0] in written.names},
        write_page_index=False,
    )


def write_canonical(
    trace: Trace,
    target: str | Path,
    *,
    shard_rows: int | None = None,
    progress: Callable[[int], None] | None = None,
    added: tuple[str, ...] = (),
) -> None:
    """Write all columns of `trace` to `target`.

    target      a `.parquet` file, or a folder when `shard_rows` is given
    shard_rows  start a new file `part-00000.parquet`, … once a shard holds this many rows
    progress    called with the number of rows written so far
    added       columns of `schema.ADDED` that the parts give too, written behind the canonical ones

    The target appears only when complete. Raises OSError if it cannot be written.
    """
    metadata = {META_KEY: encode_meta(trace.meta), ROWS_KEY: str(trace.rows).encode()}
    fields = [*schema.arrow_schema(), *(schema.ADDED[name] for name in added)]
    written = pa.schema(fields, metadata)
    with atomic(target) as part:
        if shard_rows:
            part.mkdir()
        _write_tables(_tables(trace, written), written, part, shard_rows, progress)


def _tables(trace: Trace, written: pa.Schema) -> Iterator[pa.Table]:
    yield from trace.arrow(written.names)
    if not trace.parts:
        yield written.empty_table()


def _write_tables(
    tables: Iterator[pa.Table],
    written: pa.Schema,
    part: Path,
    shard_rows: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    writer: pq.ParquetWriter | None = None
    rows = shard = in_shard = 0
    try:
        for table in tables:
            if writer is None:
                path = part / f"part-{shard:05d}.parquet" if shard_rows else part
                writer = _writer(path, written)
                shard, in_shard = shard + 1, 0
            writer.write_table(table.cast(written))
            rows, in_shard = rows + table.num_rows, in_shard + table.num_rows
            if progress:
                progress(rows)
            if shard_rows and in_shard >= shard_rows:
                writer.close()
                writer = None
    finally:
        if writer is not None:
            writer.close()
