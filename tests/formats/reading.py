"""Reading a small source in a test and looking at its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Trace


def read(*paths: Path, **options: Any) -> Trace:
    """The trace of the files, read with the named `ReadOptions`."""
    return read_trace([str(path) for path in paths], ReadOptions(**options))


def columns(trace: Trace, *names: str) -> dict[str, list[Any]]:
    """Values of the named columns in trace order, nulls as None."""
    tables = list(trace.arrow(names))
    return {name: pa.concat_tables(tables).column(name).to_pylist() for name in names}


def column(trace: Trace, name: str) -> list[Any]:
    """Values of one column in trace order."""
    return columns(trace, name)[name]


def rejected(trace: Trace) -> list[tuple[int, str, str, str]]:
    """Line, field, value and reason of each rejected row."""
    return [(one.line, one.field, one.value, one.reason) for one in trace.rejects.faults]


def counts(trace: Trace) -> tuple[int, int, int]:
    """Rows read, kept and rejected; asserts that they add up."""
    ledger = trace.meta.ledger
    assert ledger.balanced()
    assert ledger.kept == trace.rows
    assert sum(ledger.dropped.values()) == trace.rejects.total
    return ledger.read, ledger.kept, trace.rejects.total
