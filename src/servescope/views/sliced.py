"""The scan on a Ray cluster: slices of the trace have sketches of their own, which are merged in order.

The file fixes the slices, not the size of the cluster. Views that need all rows in order run beside them,
over the whole trace.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from servescope.engine import ray
from servescope.views.job import Counter
from servescope.views.slices import Scan, Scanned, Slice, StoredScan, read_scanned, slices

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

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
    work = _work(job, job.begin())
    with _folder(job) as folder, closing(_scanned(job, work, folder)) as scanned:
        for one, done in scanned:
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


def _folder(job: Job) -> AbstractContextManager[str]:
    """Where tasks leave their states: beside those of the run, or in a folder that goes with it."""
    return nullcontext(str(job.keeper.folder)) if job.keeper else TemporaryDirectory()


def _scanned(job: Job, work: list[Slice], folder: str) -> Generator[tuple[Slice, Scanned], None, None]:
    """Every slice and what came of it, in their order. Closed before its folder, whose files tasks write."""
    trace, running = job.trace, job.running
    counter = Counter(sum(trace.starts[one.last] - trace.starts[one.first] for one in work), running.progress)
    key = job.keeper.key if job.keeper else ""
    stored = StoredScan(Scan(trace, job.context), str(Path(folder).resolve()), key)
    with closing(ray.map(stored, work, threads=running.threads, address=running.address)) as paths:
        for one, path in zip(work, paths, strict=True):
            yield one, read_scanned(path, job.context)
            counter.add(trace.starts[one.last] - trace.starts[one.first])
