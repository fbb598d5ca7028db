"""The scan driver: one pass over the trace feeds all wanted sketches, and these end in tables."""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from servescope.engine import local
from servescope.errors import UsageError, unknown_name
from servescope.views import sliced, threaded
from servescope.views.catalogue import VIEWS, load
from servescope.views.job import Job, Running
from servescope.views.prologue import prologue
from servescope.views.resume import Keeper, Merged
from servescope.views.sketch import TIMES, Sketch, View, ViewOptions
from servescope.views.state import take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.result import Table
    from servescope.trace import Trace
    from servescope.views.resume import Taken

ENGINES = {"local": threaded.scan, "ray": sliced.scan}


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
    threads  threads at work; None: one for each core
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
    job, more = _job(trace, chosen, options or ViewOptions(), how)
    made = {table.name: table for table in _tables(job, ENGINES[how.engine](job))}
    notes += more
    for view in chosen:
        notes += view.notes(job.context)
    notes += _filter_notes(trace, chosen)
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


def _job(
    trace: Trace, chosen: Sequence[View], options: ViewOptions, running: Running
) -> tuple[Job, list[str]]:
    """What is to be scanned, with what an earlier run left, and notes on that."""
    each = partial(local.map, threads=running.threads)
    keeper = Keeper(running.folder, trace, options, each=each) if running.folder else None
    kept = keeper.find() if keeper and running.resume else None
    if kept:
        kept.seed(trace, each=each)
    context = prologue(trace, chosen, options, threads=running.threads, late=running.engine == "local")
    merged, notes = kept.merged(chosen, context) if kept else (Merged(), [])
    if keeper and not running.resume:
        keeper.clear()
    if running.resume and not kept:
        notes.append(f"nothing to resume in {running.folder}: everything is scanned")
    return Job(trace, chosen, context, merged, keeper, running), notes


def _tables(job: Job, ordered: dict[str, Sketch]) -> list[Table]:
    """The tables of all views, made side by side while the state is written. Uses up the sketches."""
    sketches = ordered | job.merged.sketches
    calls: list[Callable[[], list[Table]]] = []
    if job.keeper:
        whole = replace(job.merged, parts=len(job.trace.parts))
        calls.append(partial(_stored, job.keeper, job.keeper.taken(whole, job.context)))
    job.merged.sketches.clear()  # each is let go once its tables are made
    slow = {view.name for view in job.views if view.slow}
    names = sorted(sketches, key=lambda name: (name in slow, _weight(sketches[name])), reverse=True)
    calls += [partial(_finished, sketches, name) for name in names]
    return [table for tables in local.results(calls, threads=job.running.threads) for table in tables]


def _stored(keeper: Keeper, taken: Taken) -> list[Table]:
    keeper.store(taken)
    return []


def _finished(sketches: dict[str, Sketch], name: str) -> list[Table]:
    return sketches.pop(name).tables()


def _weight(sketch: Sketch) -> float:
    """Bytes of its arrays, which say about how long its tables take."""
    try:
        return sum(array.nbytes for array in take_apart(sketch).arrays)
    except TypeError:
        return math.inf


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
