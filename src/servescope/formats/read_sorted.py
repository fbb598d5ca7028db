"""Reading for `convert`: what is in order is read in place, what is not is sorted first."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from servescope.formats.chutes_sort import sorted_copy
from servescope.formats.parquet import with_full_digests
from servescope.formats.read import read_trace
from servescope.formats.time_order import DisorderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servescope.formats.format import ReadOptions
    from servescope.trace import Trace


@contextmanager
def read_sorted(
    names: Sequence[str], options: ReadOptions | None = None, *, folder: str | Path | None = None
) -> Iterator[Trace]:
    """`read_trace` for a trace that is written right away, valid inside the `with` block.

    folder  where a sorted copy may lie meanwhile (the target's folder)

    Files that cannot be streamed in place for their order are sorted on disk; the digests of the
    sources cover whole files. Raises what `read_trace` raises, but for the order.
    """
    try:
        trace = read_trace(names, options)
    except DisorderError:
        with sorted_copy(names, options, folder=folder) as ordered:
            yield ordered
        return
    yield with_full_digests(trace)
