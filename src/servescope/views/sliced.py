"""The scan on a Ray cluster: slices of the trace have sketches of their own, which are merged in order.

The file fixes the slices, not the size of the cluster. Views that need all rows in order run beside them,
over the whole trace.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from servescope.engine import ray
from servescope.views.job import Counter
from servescope.views.slices import Scan, Scanned, Slice, StoredScan, read_scanned, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.views.job import Job
    from servescope.views.sketch import Sketch, View

SLICE_ROWS = 1 << 20  # least rows of a slice; a slice is whole parts
# of a trace, about: each slice costs a merge of all that it touched, for gaps by pair, user and model
# 82 % of folding in at 2^20 rows, 67 % at 2^21, 48 % at 2^22, 31 % at 2^23 (benchmark year, 300,000 users)
MOST_SLICES = 24
MOST_SLICE_ROWS = 1 << 22


def scan(job: Job) -> dict[str, Sketch]:
    """Bring `job.merged` to the end of the trace; the finished sketches of ordered views by name.

    Raises DataError where time goes back.
    """
    merged, keeper, parts = job.merged, job.keeper, len(job.trace.parts)
    known = merged.parts
    ordered: dict[str, Sketch] = {}
    for one, done in _done(job, _work(job, job.begin())):
        if one.views[0].ordered:
            ordered |= done.sketches
            continue
        fresh = one.first >= known  # and not rows that only some views scan again
        if keeper and fresh and one.last == parts and known < one.first:
            keeper.keep(replace(merged, parts=one.first), job.context)
        for name in list(done.sketches):
            # taken out, so that it is freed before the next slice comes
            merged.sketches[name].merge(done.sketches.pop(name))
            merged.asked[name] |= done.asked[name]
        if fresh:
            merged.order.join(done.order)
            if keeper and keeper.due() and one.last < parts:
                keeper.keep(replace(merged, parts=one.last), job.context)
    return ordered


def _work(job: Job, anew: tuple[View, ...]) -> list[Slice]:
    """The slices to scan: ordered views as a whole, the others from where their sketches end."""
    trace, first = job.trace, job.merged.parts
    free = tuple(view for view in job.views if not view.ordered)
    rows = max(SLICE_ROWS, min(MOST_SLICE_ROWS, trace.rows // MOST_SLICES))
    work = [Slice(0, len(trace.parts), (view,)) for view in job.ordered]
    if anew and first:
        work += slices(trace, anew, rows, last=first)
    return work + (slices(trace, free, rows, first=first) if free else [])


def _done(job: Job, work: list[Slice]) -> Iterator[tuple[Slice, Scanned]]:
    """Every slice and what came of it, in their order."""
    trace, keeper, running = job.trace, job.keeper, job.running
    counter = Counter(sum(trace.starts[one.last] - trace.starts[one.first] for one in work), running.progress)
    with ExitStack() as stack:
        folder = keeper.folder if keeper else Path(stack.enter_context(TemporaryDirectory()))
        stored = StoredScan(Scan(trace, job.context), str(folder.resolve()), keeper.key if keeper else "")
        paths = ray.map(stored, work, threads=running.threads, address=running.address)
        for one, path in zip(work, paths, strict=True):
            yield one, read_scanned(path, job.context)
            counter.add(trace.starts[one.last] - trace.starts[one.first])
