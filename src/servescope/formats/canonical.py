"""Canonical Parquet, as `convert` writes it: one file, or a folder of shards in name order.

Lossless: columns, metadata and, written again, the bytes are those of the file. Row groups are read
by column when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from servescope import schema
from servescope.errors import DataError, FormatError
from servescope.formats.format import Format
from servescope.formats.parquet import ParquetFile, open_parquet
from servescope.trace import Trace, TraceMeta
from servescope.trace_write import META_KEY, ROWS_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

VERSION = 1
REMEDY = "Write it again with convert."


@dataclass(frozen=True)
class CanonicalPart:
    """One row group of a canonical file.

    file    where it lies
    group   index of the row group
    start   `request_id` of its first row
    rows    number of rows
    """

    file: ParquetFile
    group: int
    start: int
    rows: int

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`. Raises DataError where ids or times contradict the order."""
        wanted = [name for name in schema.NAMES if name in set(columns)]
        table = self.file.read(self.group, wanted)
        self._check(table)
        return table.cast(schema.arrow_schema(wanted)).replace_schema_metadata(None)

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`."""
        return f"{self.start} {self.file.fingerprint(self.group)}"

    def _check(self, table: pa.Table) -> None:
        if "request_id" in table.column_names:
            ids = table.column("request_id").to_numpy()
            if not np.array_equal(ids, np.arange(self.start, self.start + self.rows)):
                raise self._error(f"request_id does not run from {self.start:,} without a gap")
        if "arrival_us" in table.column_names:
            times = table.column("arrival_us").to_numpy()
            if (np.diff(times) < 0).any():
                raise self._error("arrival_us goes back")

    def _error(self, what: str) -> DataError:
        name = self.file.source.name
        return DataError(f"{name}: row group {self.group}: {what}; this is no canonical trace. {REMEDY}")


def detect(sample: Sample) -> str | None:
    """The key that `convert` puts into the schema; a folder of Parquet shards with it."""
    if META_KEY in sample.parquet_meta:
        return "Parquet with servescope metadata"
    if sample.kind == "folder" and any(name.startswith("part-") for name in sample.files):
        shards = [name for name in sample.files if name.endswith(".parquet")]
        return f"a folder of {len(shards)} Parquet shards named part-…" if shards else None
    return None


def open_trace(sources: list[Source], context: Context) -> Trace:
    """One canonical trace: a file, a folder of shards, or shards given in order.

    Raises DataError for files that are cut, foreign, of another layout, or not shards of one trace.
    """
    files = [open_parquet(shard) for source in sources for shard in _shards(source)]
    metas = [_meta(file) for file in files]
    for file, meta in zip(files[1:], metas[1:], strict=True):
        if meta != metas[0]:
            raise FormatError(
                f"{files[0].source.name} and {file.source.name} differ in their metadata; "
                "a canonical trace is one file or the shards of one folder."
            )
    parts = _parts(files)
    _check_rows(files, parts)
    return Trace(metas[0], parts)


def _shards(source: Source) -> list[Source]:
    if not source.is_folder:
        return [source]
    paths = sorted(path for path in source.path.iterdir() if path.suffix == ".parquet")
    if not paths:
        raise DataError(f"{source.name}: no .parquet shard in the folder.")
    return [replace(source, name=str(path), path=path) for path in paths]


def _meta(file: ParquetFile) -> TraceMeta:
    """The trace's metadata, after a look at the columns."""
    name = file.source.name
    stored = (file.columns.metadata or {}).get(META_KEY)
    if stored is None:
        raise DataError(f"{name}: no canonical trace: the servescope metadata is missing. {REMEDY}")
    try:
        version = msgspec.json.decode(stored, type=dict).get("version")
        if version != VERSION:
            raise DataError(
                f"{name}: layout version {version}, this release reads {VERSION}. Convert the source again."
            )
        meta = msgspec.json.decode(stored, type=TraceMeta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{name}: the servescope metadata is broken ({error}). {REMEDY}") from error
    expected = schema.arrow_schema()
    added = [name for name in file.columns.names[len(expected) :] if name in schema.ADDED]
    if not file.columns.remove_metadata().equals(pa.schema([*expected, *(schema.ADDED[n] for n in added)])):
        raise DataError(f"{name}: {_difference(file.columns, expected)}. {REMEDY}")
    return meta


def _difference(found: pa.Schema, expected: pa.Schema) -> str:
    for field in expected:
        if field.name not in found.names:
            return f"column {field.name} is missing"
        other = found.field(field.name)
        if not other.equals(field):
            return f"column {field.name} is {other.type}, {field.type} was expected"
    return "columns other than the canonical ones, or in another order"


def _parts(files: list[ParquetFile]) -> tuple[CanonicalPart, ...]:
    """Row groups in order; where their statistics tell, ids run on and times do not go back."""
    parts: list[CanonicalPart] = []
    start = 0
    latest = 0
    for file in files:
        for group in range(file.groups):
            rows = file.group_rows(group)
            if not rows:
                continue
            ids, times = file.bounds(group, ("request_id", "arrival_us")).values()
            part = CanonicalPart(file, group, start, rows)
            if ids is not None and ids != (start, start + rows - 1):
                raise part._error(f"request_id {ids[0]} to {ids[1]}, {start} to {start + rows - 1} expected")
            if times is not None:
                if times[0] < latest:  # type: ignore[operator]
                    raise part._error("arrival_us goes back")
                latest = times[1]  # type: ignore[assignment]
            parts.append(part)
            start += rows
    return tuple(parts)


def _check_rows(files: list[ParquetFile], parts: tuple[CanonicalPart, ...]) -> None:
    """The last shard may be missing: nothing in the others would show it but the number of rows."""
    stated = (files[0].columns.metadata or {}).get(ROWS_KEY)
    rows = sum(part.rows for part in parts)
    if stated is not None and stated != str(rows).encode():
        of = stated.decode("utf-8", "replace")
        raise DataError(
            f"{files[0].source.name}: {rows:,} rows in {len(files)} file(s), the trace has {of}. "
            "A shard is missing; give the whole folder."
        )


FORMAT = Format("canonical", "servescope's own Parquet (file or folder of shards)", detect, open=open_trace)
