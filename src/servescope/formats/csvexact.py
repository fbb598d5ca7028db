"""CSV text that needs a close look, row by row: quotes, line ends in fields, blank and ragged rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A quoted field this long is a quote that was never closed; a prompt's block list stays far below.
QUOTED_LIMIT_BYTES = 16 << 20
_BLANK = " \t\r\n\x0b\x0c"
_REASONS = {
    "',' expected after '\"'": "text after a closing quote",
    "new-line character seen": "a carriage return inside a field without quotes",
    "unexpected end of data": "a quote is opened and never closed",
    "field larger than field limit": "a quote is opened and never closed",
}


@dataclass
class ExactRows:
    """Rows of one piece of text.

    rows    fields of each row; None for a row that could not be read
    starts  index of the physical line on which each row begins, from 0
    wrong   index of a row -> why it could not be read
    blank   blank lines
    used    physical lines that are done; the rest begins a row that does not end in this piece
    """

    rows: list[list[str] | None] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    wrong: dict[int, str] = field(default_factory=dict)
    blank: int = 0
    used: int = 0


def exact_rows(lines: list[str], width: int, *, last: bool) -> ExactRows:
    """Rows of physical lines, given without their LF.

    width  fields of a row; another number is wrong
    last   nothing follows, so a quote that is still open is never closed

    After a broken row reading goes on at the line after the row's first: a stray quote costs its
    own row, not those that it seemed to swallow.
    """
    out = ExactRows()
    limit = csv.field_size_limit(QUOTED_LIMIT_BYTES)
    try:
        while out.used < len(lines):
            reason = _run(lines, width, out)
            if reason is None:
                break
            if (
                reason == "unexpected end of data"
                and not last
                and _size(lines, out.used) < QUOTED_LIMIT_BYTES
            ):
                break
            if _is_blank(lines[out.used]):  # with a carriage return inside
                out.blank += 1
            else:
                known = (text for key, text in _REASONS.items() if reason.startswith(key))
                _wrong(out, out.used, next(known, reason))
            out.used += 1
    finally:
        csv.field_size_limit(limit)
    return out


def _run(lines: list[str], width: int, out: ExactRows) -> str | None:
    """Read rows from line `out.used` on until one is broken: why it is, None at the end."""
    first = out.used
    reader = csv.reader(_with_ends(lines, first), strict=True)
    try:
        for fields in reader:
            start, out.used = out.used, first + reader.line_num
            if len(fields) == width and (width > 1 or not _is_blank(lines[start])):
                out.rows.append(fields)
                out.starts.append(start)
            elif _is_blank(lines[start]):
                out.blank += 1
            else:
                _wrong(out, start, f"{len(fields)} field{'s' * (len(fields) != 1)}, {width} expected")
    except csv.Error as error:
        return str(error)
    return None


def _with_ends(lines: list[str], first: int) -> Iterator[str]:
    for index in range(first, len(lines)):
        yield lines[index] + "\n"


def _is_blank(line: str) -> bool:
    return not line.strip(_BLANK)


def _wrong(out: ExactRows, start: int, reason: str) -> None:
    out.wrong[len(out.rows)] = reason
    out.rows.append(None)
    out.starts.append(start)


def _size(lines: list[str], first: int) -> int:
    return sum(map(len, lines[first:])) + len(lines) - first
