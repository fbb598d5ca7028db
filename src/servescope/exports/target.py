"""What an export is: the types that every export file and the common function share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servescope.trace import Batch, Trace

Mask = npt.NDArray[np.bool_]
# of the order of rows, not of the requests: every file has its own
BOOKKEEPING = ("request_id", "source_row")


@dataclass(frozen=True)
class Loss:
    """A loss in values of columns that the format does hold.

    columns   what the test reads
    test      (batch, trace) -> bool[rows], the rows that lose something
    one,many  what happens to them, for one and for several; `{n}` stands for how many they are
    drops     such rows are not written at all
    """

    columns: tuple[str, ...]
    test: Callable[[Batch, Trace], Mask]
    one: str
    many: str
    drops: bool = False


@dataclass(frozen=True)
class Export:
    """A format to write.

    name         as in the table of `exports/__init__.py`
    title        one line for the documentation
    holds        canonical columns that it holds
    write        writes the rows of a trace to a path, streaming; returns notes
    losses       losses in values, row by row
    whole        trace -> losses of the trace as a whole (its clock, its block size)
    takes_delta  whether input tokens may be what is new since the parent's answer
    """

    name: str
    title: str
    holds: frozenset[str]
    write: Callable[[Trace, Path], list[str]]
    losses: tuple[Loss, ...] = ()
    whole: Callable[[Trace], list[str]] = lambda _: []
    takes_delta: bool = False


def unusable(batch: Batch, name: str, least: int) -> Mask:
    """Rows whose count is unknown or below `least`."""
    values = batch[name].astype(np.int64)
    return np.asarray((values == schema.BY_NAME[name].null) | (values < least))
