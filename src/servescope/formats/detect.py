"""Which format is this? By content, with the reason shown; ambiguity is refused."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import msgspec

from servescope import formats
from servescope.errors import DataError, FormatError
from servescope.formats.format import Sample
from servescope.formats.lines import BOM
from servescope.formats.parquet import open_parquet

if TYPE_CHECKING:
    from servescope.formats.format import Format, ReadOptions
    from servescope.formats.source import Source

SAMPLE_LINES = 20
LONG_LINE_BYTES = 16 << 20


def detect(source: Source, options: ReadOptions) -> Format:
    """The one format that recognises the source; see `recognise`."""
    return recognise(source, options)[0]


def recognise(source: Source, options: ReadOptions) -> tuple[Format, str]:
    """The one format that recognises the source, and by what.

    Raises FormatError if none or several do; the message gives each one's reason.
    """
    if options.map:
        return formats.load("table"), "its columns are mapped (declared)"
    taken = sample(source)
    if taken.kind == "text" and not taken.head.strip():
        raise DataError(f"{source.name}: the file is empty.")
    reasons = {name: reason for name in formats.FORMATS if (reason := formats.load(name).detect(taken))}
    if len(reasons) == 1:
        name, reason = next(iter(reasons.items()))
        return formats.load(name), f"recognised by its content: {reason}"
    if reasons:
        listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()))
        raise FormatError(f"{source.name} could be several formats ({listed}). Say which with --format.")
    raise FormatError(
        f"{source.name}: no format recognises it ({describe(taken)}). "
        f"Name one with --format ({', '.join(sorted(formats.FORMATS))}), or map the columns "
        "of any table: --map arrival=COLUMN --map input_tokens=COLUMN --time-unit UNIT."
    )


def describe(taken: Sample) -> str:
    """What the start of a source looks like, for a message."""
    if taken.kind != "text":
        columns = f" with columns {', '.join(taken.parquet_columns[:12])}" if taken.parquet_columns else ""
        return f"a {taken.kind} source{columns}"
    if taken.objects:
        keys = ", ".join(list(taken.objects[0])[:12])
        return f"JSON with the keys {keys}" if keys else "empty JSON objects"
    if taken.header:
        return f"text whose first line is {', '.join(taken.header[:12])[:200]}"
    return "text"


def sample(source: Source) -> Sample:
    """The start of a source. Raises DataError for a broken file."""
    if source.is_folder:
        names = sorted(path.name for path in source.path.iterdir())[:1000]
        return Sample(source.name, "folder", files=names)
    head = source.head()
    if head.startswith(b"PAR1"):
        return _parquet(source)
    if b"\x00" in head:
        return Sample(source.name, "binary", source.size_bytes, head)
    return _text(source, head)


def _parquet(source: Source) -> Sample:
    if source.compression:
        raise DataError(f"{source.name}: Parquet inside {source.compression}; decompress it first.")
    schema = open_parquet(source).columns
    return Sample(
        source.name,
        "parquet",
        source.size_bytes,
        parquet_columns=schema.names,
        parquet_meta=dict(schema.metadata or {}),
    )


def _text(source: Source, head: bytes) -> Sample:
    if head.removeprefix(BOM).lstrip()[:1] == b"{" and b"\n" not in head:
        head = source.head(LONG_LINE_BYTES)  # a log line with a long prompt; keys may stand at its end
    text = head.removeprefix(BOM)
    whole = source.compression is None and source.size_bytes <= len(head)
    lines = text.split(b"\n")
    if len(lines) > 1 and not whole:
        lines = lines[:-1]  # the last line may be cut
    lines = [line.strip() for line in lines if line.strip()][: SAMPLE_LINES + 1]
    array = text.lstrip()[:1] == b"["
    objects = (
        _array_items(text) if array else [item for line in lines if isinstance(item := _json(line), dict)]
    )
    header, rows = ([], []) if objects or array or text.lstrip()[:1] == b"{" else _csv(lines)
    return Sample(source.name, "text", source.size_bytes, head, objects[:SAMPLE_LINES], array, header, rows)


def _json(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _array_items(text: bytes) -> list[dict[str, Any]]:
    """Objects at the start of a JSON array that may be cut: the longest prefix that parses."""
    whole = _json(text)
    if isinstance(whole, list):
        return [item for item in whole if isinstance(item, dict)]
    for end in (i for i in range(len(text) - 1, 0, -1) if text[i : i + 1] == b"}"):
        items = _json(text[: end + 1] + b"]")
        if isinstance(items, list):
            return [item for item in items if isinstance(item, dict)]
    return []


def _csv(lines: list[bytes]) -> tuple[list[str], list[list[str]]]:
    joined = b"\n".join(lines).decode("utf-8", "replace")
    try:
        rows = list(csv.reader(io.StringIO(joined)))
    except csv.Error:
        return [], []
    return (rows[0], rows[1:]) if rows else ([], [])
