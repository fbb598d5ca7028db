"""JSON lines into typed rows: fast where all is well, exact about the fault where not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from servescope.formats.format import fault
from servescope.formats.lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from servescope.errors import Fault
    from servescope.formats.format import Context
    from servescope.formats.source import Source

R = TypeVar("R")  # a msgspec struct, or a plain object where keys vary

_BYTE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]+)`")
_JSON_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "object": "an object",
    "array": "an array",
}


@dataclass(frozen=True)
class JsonRows(Generic[R]):
    """Rows of one piece of a file.

    lines   int64[n], physical lines of all rows, bad ones included
    rows    the rows; a bad one is replaced by the placeholder that `read_rows` was given
    faults  index -> what is wrong with the row
    """

    lines: npt.NDArray[np.int64]
    rows: list[R]
    faults: dict[int, Fault]


def read_rows(source: Source, context: Context, row: type[R], placeholder: R) -> Iterator[JsonRows[R]]:
    """Decode every line of `source` as the msgspec type `row`.

    placeholder  a valid row that stands in for a bad one, so that columns keep their length

    Types are strict: 1.5 or "7" is no whole number. Changes the context's ledger (blank lines).
    """
    decode = msgspec.json.Decoder(row).decode
    for piece in read_lines(source, context):
        try:
            yield JsonRows(piece.numbers, [decode(line) for line in piece.texts], {})
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            rows: list[R] = []
            faults: dict[int, Fault] = {}
            for index, line in enumerate(piece.texts):
                try:
                    rows.append(decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    faults[index] = explain(source, int(piece.numbers[index]), line, error)
                    rows.append(placeholder)
            yield JsonRows(piece.numbers, rows, faults)


def explain(source: Source, line_number: int, line: bytes, error: Exception) -> Fault:
    """The fault behind a decoding error: field, value and reason in the user's words."""
    text = str(error)
    if isinstance(error, msgspec.ValidationError):
        return _explain_type(source, line_number, line, text)
    if isinstance(error, RecursionError):
        return fault(source, line_number, "", None, "invalid JSON, nested too deeply", rule="invalid_json")
    found = _BYTE.search(text)
    # msgspec counts the bytes before the fault, but for trailing text one more
    column = int(found[1]) + ("trailing characters" not in text) if found else len(line) + 1
    reason = f"invalid JSON at column {column}"
    if "truncated" in text:
        reason += " (the line ends too early)"
    return fault(source, line_number, "", None, reason, rule="invalid_json")


def _explain_type(source: Source, line_number: int, line: bytes, text: str) -> Fault:
    missing = _MISSING.search(text)
    path = _PATH.search(text)
    where = path[1] if path else ""
    if missing:
        name = f"{where}.{missing[1]}" if where else missing[1]
        return fault(source, line_number, name, None, "missing", rule="missing")
    if not where:
        found = _expected(text)
        article = "an" if found[1][:1] in "aeiou" else "a"
        reason = f"row is {article} {found[1]}, an object was expected" if found[0] else text
        return fault(source, line_number, "", None, reason, rule="not_an_object")
    expected, got = _expected(text)
    reason = f"{_JSON_NAMES.get(expected.split(' | ')[0], expected)} was expected" if expected else text
    if "out of range" in text:
        reason = "number out of range"
    value = _lookup(line, where)
    top = re.split(r"[.\[]", where)[0]
    name = where if "." in where else top
    bad = fault(source, line_number, name, value, reason, rule="wrong_type")
    if isinstance(value, bool) or (value is None and got == "null"):
        return replace(bad, value=msgspec.json.encode(value).decode())
    return bad


def _expected(text: str) -> tuple[str, str]:
    found = re.match(r"Expected `([^`]+)`, got `([^`]+)`", text)
    return (found[1], found[2]) if found else ("", "")


def _lookup(line: bytes, path: str) -> Any:
    """The value at a msgspec path ("a.b[0]"), None where it cannot be shown."""
    try:
        value = msgspec.json.decode(line)
        for key in re.findall(r"[^.\[\]]+", path):
            if key == "...":
                return None
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (msgspec.DecodeError, RecursionError, KeyError, IndexError, ValueError, TypeError):
        return None
    return value
