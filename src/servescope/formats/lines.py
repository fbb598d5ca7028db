"""Text in physical lines: numbered from 1 across members and blocks, blank lines counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context
    from servescope.formats.source import Source

BOM = b"\xef\xbb\xbf"
LINE_LIMIT_BYTES = 256 << 20  # one request's row never gets near this; a file without line ends does


@dataclass(frozen=True)
class Lines:
    """Some consecutive lines that are not blank.

    numbers  int64[n], physical line numbers, increasing
    texts    the lines without their ends
    """

    numbers: npt.NDArray[np.int64]
    texts: list[bytes]


def read_lines(source: Source, context: Context) -> Iterator[Lines]:
    """The source's lines in pieces of a few MB.

    Lines end with LF or CRLF, the last one needs no end. A byte order mark is dropped, blank
    lines are left out and noted. Changes the context's ledger.

    Raises DataError for broken compression and for a line over 256 MB.
    """
    rest = b""
    number = 1
    for block in source.blocks(context.options.progress):
        if number == 1 and not rest and block.startswith(BOM):
            block = block[len(BOM) :]
        *whole, rest = (rest + block).split(b"\n")
        if len(rest) > LINE_LIMIT_BYTES:
            raise DataError(
                f"{source.name}:{number + len(whole)}: a line of over 256 MB. Is this a text file?"
            )
        if whole:
            yield _lines(whole, number, context)
            number += len(whole)
    if rest:
        yield _lines([rest], number, context)


def _lines(raw: list[bytes], number: int, context: Context) -> Lines:
    texts = [line.rstrip(b"\r") if line.endswith(b"\r") else line for line in raw]
    numbers = np.arange(number, number + len(texts), dtype=np.int64)
    blank = [index for index, line in enumerate(texts) if not line or line.isspace()]
    if blank:
        context.ledger.note("blank_lines", "{n} blank line", "{n} blank lines", count=len(blank))
        keep = np.ones(len(texts), np.bool_)
        keep[blank] = False
        numbers = numbers[keep]
        texts = [line for line, wanted in zip(texts, keep, strict=True) if wanted]
    return Lines(numbers, texts)
