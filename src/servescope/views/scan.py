"""The scan driver: one pass over the trace feeds all wanted sketches.

The rows are cut into slices that the file fixes, not the number of threads; each slice has
sketches of its own, merged in order. So any number of threads gives the same tables, byte for
byte. Views that need the order run beside them, over all rows.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope.engine import local
from servescope.errors import DataError, UsageError
from servescope.views.catalogue import VIEWS, load
from servescope.views.prologue import prologue
from servescope.views.sketch import TIMES, Context, Sketch, View, ViewOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.result import Table
    from servescope.trace import Trace

    Progress = Callable[[int, int], None]

SLICE_ROWS = 1 << 20  # about the rows of a slice; a slice is whole parts


@dataclass(frozen=True)
class Slice:
    """A run of parts, `first` up to before `last`, and the views that scan it."""

    first: int
    last: int
    views: tuple[View, ...]


@dataclass
class Counter:
    """Rows done so far, told to `progress` from any thread. Counts a row once for each lane."""

    total: int
    progress: Progress | None
    done: int = 0
    lock: Any = field(default_factory=Lock)

    def add(self, rows: int) -> None:
        """Count rows as done."""
        if self.progress is not None:
            with self.lock:
                self.done += rows
                self.progress(self.done, self.total)


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


def run_views(
    trace: Trace,
    names: Sequence[str] | None = None,
    *,
    threads: int | None = None,
    options: ViewOptions | None = None,
    progress: Progress | None = None,
) -> tuple[list[Table], list[str], dict[str, int | float]]:
    """Result tables of a trace, notes for the reader, and how long the scan took.

    names     tables to make (`VIEWS`); None: all that the trace allows, the rest is noted
    threads   how many slices are in work at once; None: one for each core
    progress  called with rows done and rows in total, from any thread

    Raises UsageError for an unknown table, one that this trace cannot give, a window of no
    length, or a highlighted model that is not in the trace; DataError where time goes back.
    """
    begun = time.perf_counter()
    wanted, notes = _wanted(trace, names)
    chosen = list({view.name: view for view in wanted.values()}.values())
    threads = threads or os.cpu_count() or 1
    context = prologue(trace, chosen, options or ViewOptions(), threads=threads)
    for view in chosen:
        notes += view.notes(context)
    notes += _filter_notes(trace, chosen)
    made = {}
    for sketch in _scan(trace, context, chosen, threads, progress).values():
        made.update({table.name: table for table in sketch.tables()})
    seconds = time.perf_counter() - begun
    timing: dict[str, int | float] = {
        "rows": trace.rows,
        "scan_s": seconds,
        "scan_rows_per_s": trace.rows / seconds,
        "peak_rss_bytes": peak_rss_bytes(),
    }
    return [made[name] for name in wanted if name in made], list(dict.fromkeys(notes)), timing


def _wanted(trace: Trace, names: Sequence[str] | None) -> tuple[dict[str, View], list[str]]:
    """View of every table to make, and a note for each that this trace cannot give."""
    wanted: dict[str, View] = {}
    notes = []
    for name in dict.fromkeys(VIEWS if names is None else names):
        view = load(name)
        missing = [need for need in view.tables[name] if not _gives(trace, need)]
        if not missing:
            wanted[name] = view
            continue
        reason = f"the source has no {' and no '.join(missing)}"
        if names is not None:
            raise UsageError(f'the table "{name}" cannot be made: {reason}.')
        notes.append(f"table {name} is left out: {reason}")
    return wanted, notes


def _gives(trace: Trace, need: str) -> bool:
    return trace.meta.origin.kind != "none" if need == TIMES else trace.has(need)


def _filter_notes(trace: Trace, chosen: Sequence[View]) -> list[str]:
    lacking = {name: None for view in chosen for name in view.filters if not trace.has(name)}
    tables = [table for view in chosen if set(view.filters) & set(lacking) for table in view.tables]
    if not lacking:
        return []
    return [
        f"the source has no {', no '.join(lacking)}: in {', '.join(tables)} a row filter on "
        f"{'it' if len(lacking) == 1 else 'them'} lets every row pass"
    ]


def slices(trace: Trace, chosen: tuple[View, ...], rows: int) -> list[Slice]:
    """Runs of parts of at least `rows` rows (the last may have fewer), for these views."""
    cut: list[Slice] = []
    first = 0
    for last in range(1, len(trace.parts) + 1):
        if trace.starts[last] - trace.starts[first] >= rows or last == len(trace.parts):
            cut.append(Slice(first, last, chosen))
            first = last
    return cut


def _scan(
    trace: Trace, context: Context, chosen: Sequence[View], threads: int, progress: Progress | None
) -> dict[str, Sketch]:
    """The finished sketch of every view, by view name."""
    free = tuple(view for view in chosen if not view.ordered)
    work = [Slice(0, len(trace.parts), (view,)) for view in chosen if view.ordered]
    work += slices(trace, free, SLICE_ROWS) if free else []
    rows = sum(trace.starts[one.last] - trace.starts[one.first] for one in work)
    counter = Counter(rows, progress)

    def run(one: Slice) -> tuple[dict[str, Sketch], Order]:
        order = Order()
        sketches = {view.name: view.new(context) for view in one.views}
        columns = sorted({name for sketch in sketches.values() for name in sketch.columns})
        for batch in trace.batches(columns, first=one.first, last=one.last):
            if batch.rows:
                order.follow(batch["arrival_us"].astype(np.int64, copy=False), batch.start)
                for sketch in sketches.values():
                    sketch.update(batch)
            counter.add(batch.rows)
        return sketches, order

    whole: dict[str, Sketch] = {view.name: view.new(context) for view in free}
    whole_order = Order()
    for done, order in local.map(run, work, threads=threads):
        if not done.keys() - whole.keys() and order.last_us is not None:
            whole_order.join(order)
        for name, sketch in done.items():
            if name in whole:
                whole[name].merge(sketch)
            else:
                whole[name] = sketch
    return whole


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
