"""What a public function is given becomes a trace: a trace, a function that reads one, or sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from servescope.errors import UsageError
from servescope.files import PathLike
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.ledger import Ledger
from servescope.result import Result
from servescope.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

TraceLike = Trace | PathLike | Callable[[], Trace]


def trace_of(trace: TraceLike) -> Trace:
    if isinstance(trace, Trace):
        return trace
    return trace() if callable(trace) else read_trace([os.fspath(trace)])


def source_paths(traces: Sequence[TraceLike]) -> list[PathLike]:
    """Where traces will be read from, as far as it is known beforehand: paths, or `partial(read, *paths)`."""
    given = [trace.args if isinstance(trace, partial) else (trace,) for trace in traces]
    return [path for paths in given for path in paths if isinstance(path, str | os.PathLike)]


def read_all(traces: Sequence[TraceLike], options: dict[str, Any]) -> Trace:
    """The one trace given, or the sources read as one."""
    if len(traces) == 1 and not isinstance(traces[0], str | os.PathLike):
        return trace_of(traces[0])
    return read_trace(_paths(traces), ReadOptions(**options))


def _paths(traces: Sequence[TraceLike]) -> list[str]:
    paths = [os.fspath(trace) for trace in traces if isinstance(trace, str | os.PathLike)]
    if len(paths) < len(traces):
        raise UsageError("give one trace that is read already, or the sources of one trace.")
    return paths


def in_order(
    traces: Sequence[TraceLike], folder: Path, options: dict[str, Any]
) -> AbstractContextManager[Trace]:
    """The trace for as long as it is written; sources that are out of order are sorted in `folder`."""
    from servescope.formats.parquet import with_full_digests
    from servescope.formats.read_sorted import read_sorted

    if len(traces) == 1 and not isinstance(traces[0], str | os.PathLike):
        return nullcontext(with_full_digests(trace_of(traces[0])))
    return read_sorted(_paths(traces), ReadOptions(**options), folder=folder)


def pool_result(command: str, traces: Sequence[TraceLike]) -> Result | None:
    """The tables of a ServeGen pool, None where the one source is none."""
    from servescope.formats.servegen import is_pool, read_pool
    from servescope.formats.servegen_facts import pool_facts

    folder = traces[0] if len(traces) == 1 else None
    if not isinstance(folder, str | os.PathLike) or not is_pool(folder):
        return None
    pool = read_pool(folder)
    ledger = Ledger(read=len(pool.clients), kept=len(pool.clients), unit="client")
    inputs = {
        "format": "servegen",
        "sources": [os.fspath(folder)],
        "decisions": ["a pool holds clients, not requests"],
    }
    return Result(command, inputs, ledger, pool.notes, pool_facts(pool))
