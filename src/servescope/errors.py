"""Every error that servescope raises on purpose.

ServescopeError            exit code
├── UsageError             2    the request cannot be carried out as asked
│   └── FormatError        2    the format of a source is unknown or ambiguous
├── DataError              3    the data is bad
│   └── BadRowError        3    one row is bad: file, line, field, value, reason, remedy
├── EndpointError          4    the endpoint under test failed
└── VoidResultError        5    the work ran, but its result must not be used
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

VALUE_CHARS = 80  # a message shows this much of an offending value, never a whole row


class ServescopeError(Exception):
    """Base of the family; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(ServescopeError):
    """The request cannot be carried out as asked; the message says what to change."""

    exit_code = 2


class FormatError(UsageError):
    """The format of a source is unknown or ambiguous."""


class DataError(ServescopeError):
    """The data is bad as a whole (no row left, file cut short, wrong checksum)."""

    exit_code = 3


class EndpointError(ServescopeError):
    """The endpoint under test failed."""

    exit_code = 4


class VoidResultError(ServescopeError):
    """The work ran to its end, but its result must not be used."""

    exit_code = 5


@dataclass(frozen=True)
class Fault:
    """What is wrong with one row of a source.

    file    name of the source as the user gave it
    line    1-based physical line in the decompressed text (row for Parquet, item for a JSON array)
    field   column or key as the source names it, "" for the row as a whole
    value   the offending value as text, shortened
    reason  what is wrong with it
    remedy  what the user can do
    rule    short name under which the row is counted when it is skipped
    """

    file: str
    line: int
    field: str
    value: str
    reason: str
    remedy: str
    rule: str

    def message(self) -> str:
        """One line: where, what, why, and what to do."""
        what = f'field "{self.field}"' if self.field else "row"
        shown = f" is {self.value}" if self.value else ""
        return f"{self.file}:{self.line}: {what}{shown}: {self.reason}. {self.remedy}".rstrip()


class BadRowError(DataError):
    """The first bad row of a strict read."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message())
        self.fault = fault


def shorten(value: object) -> str:
    """Text of an offending value, at most `VALUE_CHARS` characters, on one line.

    >>> shorten("12O")
    '"12O"'
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        cut = value[: VALUE_CHARS + 1].replace('"', "'")
        text = '"' + cut.encode("unicode_escape").decode("ascii") + '"'
    else:
        text = str(value)
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is in no table: lists the known ones and the closest."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return UsageError(f'unknown {kind} "{name}".{hint} Known: {", ".join(names)}.')
