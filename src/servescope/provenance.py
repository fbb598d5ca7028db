"""Results that carry where they come from: the sources, decisions, ledger and rejects of their trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from servescope.files import size_bytes
from servescope.rejects import cut_note, rejects_table, write_rejects
from servescope.result import Result, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.files import PathLike
    from servescope.trace import Trace


def result_of(
    command: str, trace: Trace, tables: Sequence[Table], *, notes: Sequence[str] = (), **parameters: Any
) -> Result:
    """A result with the trace's provenance; the rows that a skipping read rejected are table `rejects`."""
    meta = trace.meta
    inputs = {
        "format": meta.format,
        "sources": [msgspec.to_builtins(source) for source in meta.sources],
        "decisions": meta.decisions,
        **{name: value for name, value in parameters.items() if value is not None},
    }
    rejects = [rejects_table(trace.rejects)] if trace.rejects.total else []
    named = {table.name: table for table in (*tables, *rejects)}
    return Result(
        command, inputs, meta.ledger, [*meta.ledger.texts(), *cut_note(trace.rejects), *notes], named
    )


def written_result(
    command: str, trace: Trace, out: PathLike, *, notes: Sequence[str] = (), **parameters: Any
) -> Result:
    """The result of a command that wrote the file or folder `out`: table `written`, rejects beside it."""
    paths = [Path(out), write_rejects(trace.rejects, out)]
    files = [path for path in paths if path is not None]
    data = {"file": [str(path) for path in files], "bytes": [size_bytes(path) for path in files]}
    table = Table("written", pa.table(data), "A file or folder that was written, and its size.")
    return result_of(command, trace, [table], notes=notes, **parameters)


def document_of(result: Result, trace: Trace) -> dict[str, Any]:
    """The document of a report, with the trace's metadata for whoever draws it again."""
    meta = msgspec.to_builtins(trace.meta)
    meta.pop("ledger")
    meta.pop("session_names")
    return {**result.document(), "meta": meta}
