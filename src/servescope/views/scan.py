"""The scan driver: one pass over the trace feeds all wanted sketches.

The rows are cut into slices that the file fixes, not the number of threads; each slice has
sketches of its own, merged in order. So any number of threads gives the same tables, byte for
byte. Views that need the order run beside them, over all rows.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from servescope.engine import local, ray
from servescope.errors import UsageError, unknown_name
from servescope.views.catalogue import VIEWS, load
from servescope.views.growth import watched
from servescope.views.prologue import prologue
from servescope.views.resume import Keeper, Merged
from servescope.views.sketch import TIMES, Context, Sketch, View, ViewOptions
from servescope.views.slices import Counter, Scan, Scanned, Slice, StoredScan, read_scanned, slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from servescope.result import Table
    from servescope.trace import Trace

    Progress = Callable[[int, int], None]

SLICE_ROWS = 1 << 20  # least rows of a slice; a slice is whole parts
# of a trace, about: each slice costs a merge of all that it touched, for gaps by pair, user and model
# 82 % of folding in at 2^20 rows, 67 % at 2^21, 48 % at 2^22, 31 % at 2^23 (benchmark year, 300,000 users)
MOST_SLICES = 24
MOST_SLICE_ROWS = 1 << 22
ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Running:
    """How a scan runs.

    threads   how many slices are in work at once, or cores of a Ray cluster that is started
    engine    name in `ENGINES`
    address   of a running Ray cluster
    folder    where the state is kept, None: nowhere
    resume    whether to go on from the state that is there
    progress  called with rows done and rows in total, from any thread
    """

    threads: int = 1
    engine: str = "local"
    address: str | None = None
    folder: Path | None = None
    resume: bool = False
    progress: Progress | None = None


def run_views(
    trace: Trace,
    names: Sequence[str] | None = None,
    *,
    threads: int | None = None,
    options: ViewOptions | None = None,
    **running: Any,
) -> tuple[list[Table], list[str], dict[str, int | float]]:
    """Result tables of a trace, notes for the reader, and how long the scan took.

    names    tables to make (`VIEWS`); None: all that the trace allows, the rest is noted
    threads  how many slices are in work at once; None: one for each core
    running  the other fields of `Running`

    Raises UsageError for an unknown table, one that this trace cannot give, a window of no
    length, a highlighted model that is not in the trace, an unknown engine, or a state that does not
    fit; DataError where time goes back.
    """
    begun = time.perf_counter()
    if running.get("engine", "local") not in ENGINES:
        raise unknown_name("engine", running["engine"], ENGINES)
    how = Running(threads or os.cpu_count() or 1, **running)
    wanted, notes = _wanted(trace, names)
    chosen = list({view.name: view for view in wanted.values()}.values())
    context, sketches, more = _scan(trace, chosen, options or ViewOptions(), how)
    notes += more
    for view in chosen:
        notes += view.notes(context)
    notes += _filter_notes(trace, chosen)
    made = {}
    for name in list(sketches):  # each is let go once its tables are made
        made.update({table.name: table for table in sketches.pop(name).tables()})
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


def _scan(
    trace: Trace, chosen: Sequence[View], options: ViewOptions, running: Running
) -> tuple[Context, dict[str, Sketch], list[str]]:
    """Context, the finished sketch of every view by its name, and notes on what was taken up."""
    each = partial(local.map, threads=running.threads)
    keeper = Keeper(running.folder, trace, options, each=each) if running.folder else None
    kept = keeper.find() if keeper and running.resume else None
    if kept:
        kept.seed(trace, each=each)
    context = prologue(trace, chosen, options, threads=running.threads)
    merged, notes = kept.merged(chosen, context) if kept else (Merged(), [])
    if keeper and not running.resume:
        keeper.clear()
    if running.resume and not kept:
        notes.append(f"nothing to resume in {running.folder}: everything is scanned")
    work = _work(trace, chosen, merged)
    for view in chosen:
        if not view.ordered and view.name not in merged.sketches:
            merged.asked[view.name] = set()
            merged.sketches[view.name] = view.new(watched(context, merged.asked[view.name]))
            merged.asked[view.name].clear()
    whole: dict[str, Sketch] = {}
    for one, done in _done(trace, context, work, running, keeper):
        if one.views[0].ordered:
            whole |= done.sketches
            continue
        fresh = one.first >= merged.parts  # and not rows that only some views scan again
        if keeper and fresh and one.last == len(trace.parts) and merged.parts < one.first:
            keeper.keep(replace(merged, parts=one.first), context)
        for name in list(done.sketches):
            # taken out, so that it is freed before the next slice comes: each thread holds one at most
            merged.sketches[name].merge(done.sketches.pop(name))
            merged.asked[name] |= done.asked[name]
        if fresh:
            merged.order.join(done.order)
            if keeper and keeper.due() and one.last < len(trace.parts):
                keeper.keep(replace(merged, parts=one.last), context)
    if keeper:
        keeper.keep(replace(merged, parts=len(trace.parts)), context)
    return context, whole | merged.sketches, notes


def _work(trace: Trace, chosen: Sequence[View], merged: Merged) -> list[Slice]:
    """The slices to scan: ordered views as a whole, the others from where their sketches end."""
    free = tuple(view for view in chosen if not view.ordered)
    anew = tuple(view for view in free if view.name not in merged.sketches)
    rows = max(SLICE_ROWS, min(MOST_SLICE_ROWS, trace.rows // MOST_SLICES))
    work = [Slice(0, len(trace.parts), (view,)) for view in chosen if view.ordered]
    if anew and merged.parts:
        work += slices(trace, anew, rows, last=merged.parts)
    return work + (slices(trace, free, rows, first=merged.parts) if free else [])


def _done(
    trace: Trace, context: Context, work: list[Slice], running: Running, keeper: Keeper | None
) -> Iterator[tuple[Slice, Scanned]]:
    """Every slice and what came of it, in their order."""
    counter = Counter(sum(trace.starts[one.last] - trace.starts[one.first] for one in work), running.progress)
    if running.engine == "local":
        scan = Scan(trace, context, counter.add)
        yield from zip(work, local.map(scan, work, threads=running.threads), strict=True)
        return
    with ExitStack() as stack:
        folder = keeper.folder if keeper else Path(stack.enter_context(TemporaryDirectory()))
        stored = StoredScan(Scan(trace, context), str(folder.resolve()), keeper.key if keeper else "")
        paths = ray.map(stored, work, threads=running.threads, address=running.address)
        for one, path in zip(work, paths, strict=True):
            yield one, read_scanned(path, context)
            counter.add(trace.starts[one.last] - trace.starts[one.first])


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
