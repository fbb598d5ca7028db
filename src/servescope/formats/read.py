"""Reading sources into a trace: detection, the bad-row rule, the ledger, one trace from all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from servescope import formats
from servescope.errors import BadRowError, DataError, FormatError, UsageError
from servescope.formats.assemble import Assembler
from servescope.formats.detect import recognise
from servescope.formats.format import Context, ReadOptions
from servescope.formats.source import open_source
from servescope.ledger import Rejects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.formats.format import Chunk, Format
    from servescope.formats.source import Source
    from servescope.trace import Trace


def read_trace(names: Sequence[str], options: ReadOptions | None = None) -> Trace:
    """Read one or more sources as one trace.

    names    paths, "-" for standard input, remote addresses; all of one format
    options  see `ReadOptions`; the default detects the format and stops at the first bad row

    Raises UsageError (unknown or ambiguous format, undeclared unit), BadRowError (strict, first
    bad row), DataError (nothing kept, broken file).
    """
    options = options or ReadOptions()
    if options.on_bad_row not in ("strict", "skip"):
        raise UsageError(f'--on-bad-row is "strict" or "skip", not "{options.on_bad_row}".')
    if not names:
        raise UsageError("no trace given; name at least one file, or - for standard input.")
    sources = [open_source(name) for name in names]
    chosen, reason = _format(sources, options)
    context = Context(options)
    context.decide(reason)
    if chosen.open is not None:
        return chosen.open(sources, context)
    return _read_rows(chosen, sources, context)


def _format(sources: list[Source], options: ReadOptions) -> tuple[Format, str]:
    """The format of all sources, and how it was decided."""
    if options.format:
        return formats.load(options.format), "the format is declared"
    found = [recognise(source, options) for source in sources]
    first = found[0][0].name
    for source, (other, _) in zip(sources[1:], found[1:], strict=True):
        if other.name != first:
            raise FormatError(
                f"{sources[0].name} is {first} and {source.name} is {other.name}; "
                "the sources of one trace must have one format."
            )
    return found[0]


def _read_rows(chosen: Format, sources: list[Source], context: Context) -> Trace:
    assembler = Assembler(context)
    rejects = Rejects()
    assert chosen.chunks is not None
    for source in sources:
        for chunk in chosen.chunks(source, context):
            _account(chunk, context, rejects)
            assembler.add(chunk, source.name)
    read = context.ledger.read
    if not read:
        raise DataError(f"{sources[0].name}: no rows. Is the file empty, or not {chosen.name}?")
    trace = assembler.trace(chosen.name, [source.digest() for source in sources], rejects)
    if not trace.rows and context.ledger.kept:
        raise DataError(f"{sources[0].name}: no request in any of {read:,} {context.ledger.unit}s.")
    if not trace.rows:
        first = rejects.faults[0].message() if rejects.faults else ""
        raise DataError(f"none of {read:,} rows could be kept. The first: {first}")
    return trace


def _account(chunk: Chunk, context: Context, rejects: Rejects) -> None:
    """Count the rows of a chunk; stop at the first fault, or list it as rejected."""
    items = chunk.rows if chunk.items is None else chunk.items
    context.ledger.read += items
    context.ledger.kept += items - len(chunk.faults)
    for index in sorted(chunk.faults):
        fault = chunk.faults[index]
        if context.options.prompts is not None:
            fault = replace(fault, value="")  # a value may be somebody's prompt
        if context.options.on_bad_row == "strict":
            raise BadRowError(fault)
        context.ledger.drop(fault.rule)
        rejects.add(fault)
