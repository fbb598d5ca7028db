"""Slices of a scan: what is cut, how one is scanned, and how its sketches travel as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError
from servescope.views import state
from servescope.views.growth import watched

if TYPE_CHECKING:
    from servescope.trace import Trace
    from servescope.views.sketch import Context, Sketch, View


@dataclass(frozen=True)
class Slice:
    """A run of parts, `first` up to before `last`, and the views that scan it."""

    first: int
    last: int
    views: tuple[View, ...]


def slices(
    trace: Trace, chosen: tuple[View, ...], rows: int, *, first: int = 0, last: int | None = None
) -> list[Slice]:
    """Runs of parts of at least `rows` rows (the last may have fewer), for these views.

    first, last  parts to cut, all by default
    """
    cut: list[Slice] = []
    end = len(trace.parts) if last is None else last
    for after in range(first + 1, end + 1):
        if trace.starts[after] - trace.starts[first] >= rows or after == end:
            cut.append(Slice(first, after, chosen))
            first = after
    return cut


@dataclass
class Order:
    """First row and arrivals at both ends of a run of rows, to see that time never goes back."""

    row: int = 0
    first_us: int | None = None
    last_us: int | None = None

    def follow(self, arrival: npt.NDArray[np.int64], row: int) -> None:
        """Append rows. Raises DataError where their arrivals go back or begin before 0."""
        ends = Order(row, int(arrival[0]), int(arrival[-1]))
        back = np.flatnonzero(arrival[1:] < arrival[:-1])
        if len(back) or ends.first_us is None or ends.first_us < 0:
            raise _not_ordered(row + int(back[0]) + 1 if len(back) else row)
        self.join(ends)

    def join(self, later: Order) -> None:
        """Append a later run. Raises DataError where it begins before this one ends."""
        if later.last_us is None:
            return
        if self.last_us is None:
            self.row, self.first_us = later.row, later.first_us
        elif later.first_us is None or later.first_us < self.last_us:
            raise _not_ordered(later.row)
        self.last_us = later.last_us


def _not_ordered(row: int) -> DataError:
    return DataError(
        f"request {row:,} arrives before the one before it, or before time 0: the trace is not in time "
        "order. `servescope convert` writes it sorted."
    )


@dataclass
class Scanned:
    """What came of a slice.

    sketches  by name of the view
    order     of its rows
    asked     name of the view -> facts of the whole trace that it asked for (`growth.watched`)
    """

    sketches: dict[str, Sketch]
    order: Order
    asked: dict[str, set[str]]


@dataclass(frozen=True)
class Scan:
    """Scans a slice."""

    trace: Trace
    context: Context

    def __call__(self, one: Slice) -> Scanned:
        """Fold the rows of a slice into sketches of its own. Raises DataError where time goes back."""
        order = Order()
        asked: dict[str, set[str]] = {view.name: set() for view in one.views}
        sketches = {view.name: view.new(watched(self.context, asked[view.name])) for view in one.views}
        for names in asked.values():
            names.clear()  # what an empty sketch depends on shows in the sketch itself
        columns = sorted({name for sketch in sketches.values() for name in sketch.columns})
        for batch in self.trace.batches(columns, first=one.first, last=one.last):
            if batch.rows:
                order.follow(batch["arrival_us"].astype(np.int64, copy=False), batch.start)
                for sketch in sketches.values():
                    sketch.update(batch)
        return Scanned(sketches, order, asked)


@dataclass(frozen=True)
class StoredScan:
    """Scans a slice into a file, or finds the file of an earlier, equal run.

    folder  shared by all that scan
    key     says which trace, options and release this is
    """

    scan: Scan
    folder: str
    key: str

    def __call__(self, one: Slice) -> str:
        """Path of the file."""
        lane = "" if len(one.views) != 1 or not one.views[0].ordered else f"-{one.views[0].name}"
        path = Path(self.folder) / f"slice-{one.first:08d}-{one.last:08d}{lane}.state"
        names = sorted(view.name for view in one.views)
        header = {"key": self.key, "views": names}
        if path.is_file():
            try:
                if state.Reader(path).header == header:
                    return str(path)
            except DataError:
                pass  # cut short by whatever ended the earlier run
        state.write(path, header, {"scanned": state.take_apart(self.scan(one))})
        return str(path)


def read_scanned(path: str, context: Context) -> Scanned:
    """What `StoredScan` wrote. Raises DataError where the file cannot be read here."""
    if not Path(path).is_file():
        raise DataError(
            f"{path}: a node wrote it, but it is not here. Name a folder that all nodes of the cluster share."
        )
    found: Scanned = state.Reader(Path(path)).value("scanned", context)
    return found
