"""The slow twin of the CSV reader: one character at a time, by RFC 4180, on a whole file."""

from __future__ import annotations

from typing import NamedTuple

BLANK = " \t\r\x0b\x0c"


class Row(NamedTuple):
    """A row: the line it begins on, and its fields, None where it is broken."""

    line: int
    fields: list[str] | None


def rows(text: str, width: int) -> tuple[list[Row], int]:
    """The rows of `text` after a header of one line, and the number of blank lines.

    A broken row (a quote that is never closed, text after a closing quote, a carriage return
    outside quotes, another number of fields) costs its first line, and the next line is looked
    at anew; a row of the wrong width costs all its lines.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    found: list[Row] = []
    blank = 0
    at = 1
    while at < len(lines):
        if not lines[at].strip(BLANK):
            blank += 1
            at += 1
            continue
        fields, used = _row(lines, at)
        if fields is None:
            found.append(Row(at + 1, None))
            at += 1
        else:
            found.append(Row(at + 1, fields if len(fields) == width else None))
            at += used
    return found, blank


def _row(lines: list[str], at: int) -> tuple[list[str] | None, int]:
    fields = [""]
    state = "start"  # of a field; or "plain", "quoted", "closed", "end"
    for used, line in enumerate(lines[at:], 1):
        for letter in line + "\n":
            if state == "quoted":
                if letter == '"':
                    state = "closed"
                else:
                    fields[-1] += letter
            elif letter == "\n":
                return fields, used
            elif state == "end":
                if letter != "\r":
                    return None, 0
            elif letter == "\r":
                state = "end"
            elif letter == ",":
                fields.append("")
                state = "start"
            elif state == "closed":
                if letter != '"':
                    return None, 0
                fields[-1] += letter
                state = "quoted"
            elif letter == '"' and state == "start":
                state = "quoted"
            else:
                fields[-1] += letter
                state = "plain"
    return None, 0
