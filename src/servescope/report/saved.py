"""What a finished run left in its folder, and how figures read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from servescope.errors import DataError, UsageError
from servescope.report.stored import Shape, Stored, shape_of
from servescope.result import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALL = "*"  # the scope of the whole trace in tables by type


@dataclass(frozen=True)
class Saved:
    """Saved result tables with the document that was written beside them.

    tables    name -> table; those of a folder are read when they are asked for
    document  the JSON document: command, version, inputs, ledger, notes, meta
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the source: format, sources, decisions, origin, blocks, columns."""
        return self.document.get("meta") or {}

    @property
    def calendar(self) -> bool:
        """Whether hours and days of the trace are those of a real calendar."""
        return (self.meta.get("origin") or {}).get("kind") == "calendar"

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there, has rows and has these columns."""
        if table not in self.tables:
            return False
        found = self.shape(table)
        return found.rows > 0 and set(columns) <= set(found.columns)

    def shape(self, table: str) -> Shape:
        """Number of rows, columns and meaning of a table, without reading it. Raises KeyError."""
        if isinstance(self.tables, Stored):
            return self.tables.shapes[table]
        return shape_of(self.tables[table])

    def arrow(self, table: str) -> pa.Table:
        """The rows of a table. Raises KeyError."""
        return self.tables[table].data

    def rows(self, table: str, **equal: object) -> list[dict[str, Any]]:
        """The rows of a small table whose columns have the given values; [] where there is none."""
        if not self.has(table, *equal):
            return []
        data = self.arrow(table)
        for column, value in equal.items():
            kind = data[column].type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            data = data.filter(pc.equal(data[column].cast(kind), pa.scalar(value, kind)))
        return data.to_pylist()  # type: ignore[no-any-return]

    def row(self, table: str, **equal: object) -> dict[str, Any]:
        """The first such row, or {}."""
        found = self.rows(table, **equal)
        return found[0] if found else {}

    def columns(self) -> set[str]:
        """Canonical columns that the source has."""
        return set(self.meta.get("columns") or [])

    def types(self) -> list[str]:
        """Request types, most requests first (ties by name); [] where the trace has none."""
        rows = [row for row in self.rows("type_summary") if row["request_type"] != ALL]
        rows.sort(key=lambda row: (-(row["requests"] or 0), str(row["request_type"])))
        return [str(row["request_type"]) for row in rows]


def saved_of(tables: dict[str, Table], document: dict[str, Any]) -> Saved:
    """Results as figures and lines read them: every text in them made printable.

    Names come from the trace. Characters that steer a terminal, break a line or reverse the
    writing would otherwise reach the page, and some break the chart library's expressions.
    """
    return Saved({name: _printable_table(table) for name, table in tables.items()}, _printable(document))


def printable(text: str) -> str:
    """The text with every character that is not printable written as its escape.

    >>> printable("a" + chr(27) + "[31m")
    'a\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(key)): _printable(part) for key, part in value.items()}
    return [_printable(part) for part in value] if isinstance(value, list) else value


def _printable_table(table: Table) -> Table:
    data = table.data
    for index, part in enumerate(data.schema):
        column = data.column(index)
        if pa.types.is_dictionary(part.type):
            # it stays coded: pairs of names are long
            chunks = [_printable_codes(chunk, part.type.value_type) for chunk in column.chunks]
            data = data.set_column(index, part.name, pa.chunked_array(chunks, part.type))
        if pa.types.is_string(part.type) and not _all_printable(pc.unique(column)):
            data = data.set_column(index, part.name, _made_printable(column))
    return Table(table.name, data, printable(table.doc))


def _printable_codes(codes: pa.DictionaryArray, texts_type: pa.DataType) -> pa.DictionaryArray:
    texts = codes.dictionary.cast(pa.string())
    if _all_printable(texts):
        return codes
    return pa.DictionaryArray.from_arrays(codes.indices, _made_printable(texts).cast(texts_type))


def _all_printable(texts: pa.Array) -> bool:
    """Whether all texts are printable; only those beyond printable ASCII are looked at one by one."""
    beyond = texts.filter(pc.invert(pc.ascii_is_printable(texts)))
    return all(text is None or text.isprintable() for text in beyond.to_pylist())


def _made_printable(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.array([None if text is None else printable(text) for text in texts.to_pylist()], pa.string())


def read_saved(folder: Path) -> Saved:
    """Read `folder/tables/*.parquet` and `folder/report.json`.

    Raises UsageError where they are not there, DataError where they cannot be read.
    """
    document, tables = folder / "report.json", folder / "tables"
    for path in (document, tables):
        if not path.exists():
            raise UsageError(
                f"{path}: not found. Name a folder that `servescope report TRACE -o DIR` wrote, "
                "with report.json and tables/ in it."
            )
    try:
        content = msgspec.json.decode(document.read_bytes())
    except msgspec.DecodeError as error:
        raise DataError(f"{document}: not readable as JSON ({error}). Run the report again.") from None
    if not isinstance(content, dict):
        raise DataError(f"{document}: not the document of a report. Run the report again.")
    return saved_in(tables, content)


def saved_in(tables: Path, document: dict[str, Any]) -> Saved:
    """The tables of a folder as figures read them. Raises DataError where a file cannot be read."""
    return Saved(Stored(tables, _printable_table), _printable(document))
