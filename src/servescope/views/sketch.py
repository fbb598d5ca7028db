"""What a view is: a sketch that folds in batches, may merge with the next slice, and ends in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.views.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servescope.result import Table
    from servescope.trace import Batch, TraceMeta

WINDOWS_S = (10.0, 300.0)


@dataclass(frozen=True)
class ViewOptions:
    """What a user may choose.

    windows_s   lengths of the windows of `rate`, seconds; whole microseconds
    highlights  texts of the models with lines of their own; () = the top 3 by requests
    lb_models   texts of the models of the balance views; () = the top 3 by requests
    lb_window_days, raster_user_days, raster_model_days
                half-open windows in days of the trace clock; None = the last 59, 37, 61 days
    raster_user_ranks, raster_model_ranks
                ranks in `window_rank` of the users and models whose requests `raster_rows` holds
    raster_models
                texts of such models, in place of their ranks
    rows        folder for row slices; "" = none are written
    """

    windows_s: tuple[float, ...] = WINDOWS_S
    highlights: tuple[str, ...] = ()
    lb_models: tuple[str, ...] = ()
    lb_window_days: tuple[float, float] | None = None
    raster_user_days: tuple[float, float] | None = None
    raster_model_days: tuple[float, float] | None = None
    raster_user_ranks: tuple[int, ...] = (1, 10)
    raster_model_ranks: tuple[int, ...] = (1, 10)
    raster_models: tuple[str, ...] = ()
    rows: str = ""


@dataclass(frozen=True)
class Context:
    """What is known before the scan, the same for every part of it.

    meta        facts of the trace
    rows        number of requests
    last_us     last arrival
    texts       category -> its texts by code, for the categories that the wanted views read; of those that
                are numbered during the scan (`names.Names`) at its end only
    highlights  codes of the highlighted models, heaviest first
    lb_models   codes of the balance models, heaviest first
    options     choices of the user
    """

    meta: TraceMeta
    rows: int
    last_us: int
    texts: Mapping[str, Sequence[str]]
    highlights: tuple[int, ...] = ()
    options: ViewOptions = ViewOptions()
    lb_models: tuple[int, ...] = ()

    def has(self, column: str) -> bool:
        """Whether the source states this column."""
        return column in self.meta.columns

    def so_far(self, column: str) -> Sequence[str]:
        """Texts of a category that rows folded in so far may have, by code; there may come more."""
        return self.texts.so_far(column) if isinstance(self.texts, Names) else self.texts.get(column, ())

    def strings(self, column: str) -> pa.Array:
        """`texts[column]` as Arrow strings, none where the views do not read it: millions without a copy."""
        if isinstance(self.texts, Names) and column in self.texts:
            return self.texts.strings(column)
        return pa.array(self.texts.get(column, ()), pa.string())


class Sketch(Protocol):
    """The state of a view over a run of rows: whole numbers only, so that merging is associative."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        ...

    def update(self, batch: Batch) -> None:
        """Fold in the next rows. Changes the sketch."""
        ...

    def merge(self, later: Any) -> None:
        """Fold in the sketch of the adjacent, later slice. Changes this one, may use up `later`."""
        ...

    def tables(self) -> list[Table]:
        """The finished result tables. Arrays of the state stay as they are: they may be written just now."""
        ...


TIMES = "arrival times"


def no_notes(context: Context) -> list[str]:
    """The notes of a view that has nothing to say before the scan."""
    return []


@dataclass(frozen=True)
class View:
    """A plug-in: one scan's worth of tables that share their state.

    name     of the view, unique
    columns  all that it may read; columns that the source lacks are not read
    tables   table that it makes -> the columns (or TIMES) without which it is left out with a note
    new      an empty sketch
    ordered  it needs all rows in order: it cannot merge, and no state of it is kept
    filters  columns of its row filters: where the source lacks one, the condition counts as true
    notes    what to tell the reader, known before the scan
    slow     its tables take long for their size, and are begun before the others
    """

    name: str
    columns: tuple[str, ...]
    tables: Mapping[str, tuple[str, ...]]
    new: Callable[[Context], Sketch]
    ordered: bool = False
    filters: tuple[str, ...] = ()
    notes: Callable[[Context], list[str]] = no_notes
    slow: bool = False


def held(context: Context, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that the source states; arrival is always there."""
    return tuple(name for name in columns if name in schema.REQUIRED or context.has(name))


def int32(batch: Batch, name: str) -> npt.NDArray[np.int32]:
    """A column as int32[rows], all null where the batch lacks it."""
    if name in batch.columns:
        return np.require(batch.columns[name], np.int32, "W")  # one kernel for every kind of array
    null = schema.BY_NAME[name].null
    return np.full(batch.rows, schema.NULL_INT32 if null is None else null, np.int32)


def int64(batch: Batch, name: str) -> npt.NDArray[np.int64]:
    """A column as int64[rows], all null where the batch lacks it."""
    if name in batch.columns:
        return np.require(batch.columns[name], np.int64, "W")
    null = schema.BY_NAME[name].null
    return np.full(batch.rows, schema.NULL_INT64 if null is None else null, np.int64)


def float64(batch: Batch, name: str) -> npt.NDArray[np.float64]:
    """A column as float64[rows], all NaN where the batch lacks it."""
    if name in batch.columns:
        return np.require(batch.columns[name], np.float64, "W")
    return np.full(batch.rows, np.nan)
