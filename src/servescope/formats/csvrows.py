"""CSV into columns of texts with exact physical lines: fast where all is plain, exact where not.

Fields are separated by commas and quoted by `"`, doubled inside (RFC 4180). Nothing is guessed
about values: every field is text, an empty one is "", and the formats cast. A piece of the file
without quotes goes through Arrow's reader at once; any other goes through Python's `csv`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from servescope.errors import DataError, UsageError
from servescope.formats.csvexact import exact_rows
from servescope.formats.format import fault
from servescope.formats.lines import BOM, LINE_LIMIT_BYTES
from servescope.formats.source import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servescope.errors import Fault
    from servescope.formats.csvexact import ExactRows
    from servescope.formats.format import Context
    from servescope.formats.source import Source


@dataclass(frozen=True)
class Header:
    """The first row that is not blank.

    names  column names as they stand, without the byte order mark and the quotes
    lines  physical lines up to and with the header
    blank  blank lines before it
    """

    names: list[str]
    lines: int
    blank: int


@dataclass(frozen=True)
class CsvRows:
    """Some consecutive rows.

    lines    int64[n], physical line on which each row begins, bad rows included
    columns  name -> Arrow strings[n], never null; "" in a bad row
    faults   index -> what is wrong with the row
    """

    lines: npt.NDArray[np.int64]
    columns: dict[str, pa.Array]
    faults: dict[int, Fault] = field(default_factory=dict)


@dataclass
class _Reading:
    """One read of one file: what is wanted, and the physical line that comes next."""

    source: Source
    context: Context
    width: int
    picked: dict[str, int]
    number: int = 1


def read_header(source: Source, needed: Sequence[str] = ()) -> Header:
    """The header row of `source`.

    needed  column names without which the file is not of its format

    Raises DataError where the file is empty, the header is broken or a name occurs twice, UsageError
    where a needed column is missing.
    """
    header = _header(source)
    missing = [name for name in needed if name not in header.names]
    if missing:
        raise UsageError(
            f"{source.name}: no column {', '.join(missing)}; the file has {', '.join(header.names)}. "
            "Map the columns of another table with --map."
        )
    return header


def _header(source: Source) -> Header:
    head = source.head().removeprefix(BOM)
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        text = head[: error.start].decode()
        if "\n" not in text.strip("\r\n"):
            raise DataError(f"{source.name}: the header is not UTF-8 text. Is this a CSV file?") from None
    lines = text.split("\n")
    reader = csv.reader((line + "\n" for line in lines), strict=True)
    blank = 0
    try:
        for names in reader:
            if any(name.strip() for name in names):
                if reader.line_num == len(lines) and len(head) >= HEAD_BYTES - len(BOM):
                    raise DataError(f"{source.name}: no end of the header in 64 KiB. Is this a CSV file?")
                return _checked(source, Header(names, reader.line_num, blank))
            blank += 1
    except csv.Error as error:
        raise DataError(
            f"{source.name}:{reader.line_num}: the header is not a CSV row ({error}). "
            "Columns are separated by commas and quoted by double quotes."
        ) from None
    raise DataError(f"{source.name}: no header. Is the file empty?")


def _checked(source: Source, header: Header) -> Header:
    twice = sorted({name for name in header.names if header.names.count(name) > 1 and name})
    if twice:
        raise DataError(
            f"{source.name}:{header.lines}: the header names {', '.join(twice)} more than once. "
            "Rename the columns so that each name stands for one."
        )
    return header


def read_csv(source: Source, context: Context, header: Header, columns: Sequence[str]) -> Iterator[CsvRows]:
    """The rows after the header in pieces of a few MB.

    header   of this source, see `read_header`
    columns  the wanted names, all of them in the header; the others are not looked at

    Lines end with LF or CRLF, the last one needs no end; a quoted field may hold line ends.
    Blank lines are left out and noted. A row with another number of fields than the header, a
    quote that is never closed or a wanted text that is not UTF-8 is a fault. Changes the
    context's ledger.

    Raises DataError for broken compression and for a line over 256 MB.
    """
    picked = {name: header.names.index(name) for name in columns}
    reading = _Reading(source, context, len(header.names), picked)
    _note_blank(context, header.blank)
    text = b""
    for block in source.blocks(context.options.progress):
        text = _without_header(text + block, reading, header.lines)
        whole = text.rfind(b"\n") + 1
        if len(text) - whole > LINE_LIMIT_BYTES:
            where = reading.number + text.count(b"\n")
            raise DataError(f"{source.name}:{where}: a line of over 256 MB. Is this a text file?")
        if whole and reading.number > header.lines:
            used, rows = _piece(text[:whole], reading, last=False)
            text = text[used:]
            if len(rows.lines):
                yield rows
    if text and reading.number > header.lines:
        _, rows = _piece(text, reading, last=True)
        if len(rows.lines):
            yield rows


def _without_header(text: bytes, reading: _Reading, header_lines: int) -> bytes:
    """`text` without the header's lines that it still holds; counts them."""
    if reading.number > header_lines:
        return text
    start = 0
    while reading.number <= header_lines and (end := text.find(b"\n", start)) >= 0:
        start = end + 1
        reading.number += 1
    return text[start:]


def _piece(text: bytes, reading: _Reading, *, last: bool) -> tuple[int, CsvRows]:
    """The rows of `text`, and how many bytes of it they take; counts the lines."""
    rows = plain(text, reading)
    if rows is not None:
        reading.number += len(rows.lines)
        return len(text), rows
    return exact(text, reading, last=last)


def plain(text: bytes, reading: _Reading) -> CsvRows | None:
    """The rows of text in which every line is a row of the right width, None for any other."""
    if b'"' in text or _has_stray_return(text) or _has_empty_line(text):
        return None
    names = [str(index) for index in range(reading.width)]
    wanted = [names[index] for index in reading.picked.values()]
    try:
        table = pacsv.read_csv(
            pa.BufferReader(text),
            pacsv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
            pacsv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=wanted or names[:1],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    if table.num_rows != lines or (reading.width == 1 and _any_blank(table.column(0))):
        return None
    columns = {name: table.column(str(index)).combine_chunks() for name, index in reading.picked.items()}
    return CsvRows(np.arange(reading.number, reading.number + lines, dtype=np.int64), columns)


def _has_stray_return(text: bytes) -> bool:
    """Arrow would end a line there."""
    return b"\r" in text and text.count(b"\r") != text.count(b"\r\n")


def _has_empty_line(text: bytes) -> bool:
    """Arrow would read one as a row of empty fields, whatever the number of columns."""
    return text.startswith((b"\n", b"\r\n")) or b"\n\n" in text or b"\n\r\n" in text


def _any_blank(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.equal(pc.ascii_trim_whitespace(column), "")).as_py())


def exact(text: bytes, reading: _Reading, *, last: bool) -> tuple[int, CsvRows]:
    """The rows of any text, and how many bytes of it they take; counts lines, notes blank ones."""
    try:
        decoded, sound = text.decode(), True
    except UnicodeDecodeError:
        decoded, sound = text.decode("utf-8", "surrogateescape"), False
    lines = decoded.removesuffix("\n").split("\n")
    found = exact_rows(lines, reading.width, last=last)
    numbers = np.array(found.starts, np.int64) + reading.number
    _note_blank(reading.context, found.blank)
    reading.number += found.used
    used = len(text)
    if found.used < len(lines):
        used = len(("\n".join(lines[: found.used]) + "\n").encode("utf-8", "surrogateescape")) * bool(
            found.used
        )
    return used, _columns(found, numbers, reading, sound)


def _columns(found: ExactRows, numbers: npt.NDArray[np.int64], reading: _Reading, sound: bool) -> CsvRows:
    faults = {
        index: fault(reading.source, numbers[index], "", None, reason, rule="bad_csv_row")
        for index, reason in found.wrong.items()
    }
    columns = {}
    for name, at in reading.picked.items():
        values = ["" if row is None else row[at] for row in found.rows]
        if not sound:
            _refuse_broken_text(values, name, numbers, reading, faults)
        columns[name] = pa.array(values, pa.string())
    return CsvRows(numbers, columns, faults)


def _refuse_broken_text(
    values: list[str], name: str, numbers: npt.NDArray[np.int64], reading: _Reading, faults: dict[int, Fault]
) -> None:
    """A fault for each value that is not UTF-8, which is replaced by "". Changes `values`, `faults`."""
    for index, value in enumerate(values):
        if not value.isascii() and any("\udc80" <= letter <= "\udcff" for letter in value):
            shown = value.encode("utf-8", "surrogateescape")
            values[index] = ""
            faults.setdefault(
                index, fault(reading.source, numbers[index], name, shown, "not UTF-8 text", rule="not_utf8")
            )


def _note_blank(context: Context, count: int) -> None:
    context.ledger.note("blank_lines", "{n} blank line", "{n} blank lines", count=count)
