"""The scan on threads: every view folds in the whole trace, batch after batch; there is nothing to merge.

Batches are decoded by several threads at once, each once for all views (`engine.lanes`). As a view sees all
rows in their order, whatever the number of threads, its tables are the same, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope.engine import lanes
from servescope.numbering import Numbering, Rough
from servescope.views.growth import whole_names
from servescope.views.job import Counter
from servescope.views.slices import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servescope.views.job import Job
    from servescope.views.sketch import Sketch


def scan(job: Job) -> dict[str, Sketch]:
    """Bring `job.merged` to the end of the trace; the finished sketches of ordered views by name.

    Views without a sketch over the first parts have these to themselves before the others go on.

    Raises DataError where time goes back.
    """
    merged, keeper, parts = job.merged, job.keeper, len(job.trace.parts)
    late = {view.name: merged.sketches[view.name] for view in job.begin()}
    ordered = {view.name: view.new(job.context) for view in job.ordered}
    again = merged.parts if late or ordered else 0
    if not merged.sketches and not ordered:
        return {}
    starts = job.trace.starts
    counter = Counter(starts[again] + starts[parts] - starts[merged.parts], job.running.progress)
    _fold(job, late | ordered, Order(), (0, again), counter)
    while merged.parts < parts:
        # a state before the last part outlives a last part that gets longer; any earlier one does, too
        alone = keeper is not None and not keeper.holds(parts) and merged.parts < parts - 1
        span = (merged.parts, parts - 1 if alone else parts)
        enough = keeper.due if keeper else lanes.never
        merged.parts += _fold(job, merged.sketches | ordered, merged.order, span, counter, enough)
        if keeper and merged.parts < parts:
            keeper.keep(merged, job.context)
    return ordered


def _fold(
    job: Job,
    sketches: Mapping[str, Sketch],
    order: Order,
    span: tuple[int, int],
    counter: Counter,
    enough: Callable[[], bool] = lanes.never,
) -> int:
    """Fold parts, from the first up to before the second of `span`; how many were until it was enough."""
    read = {name for sketch in sketches.values() for name in sketch.columns}
    late = set(job.context.texts) - set(whole_names(job.context))  # also those that are only to be numbered
    columns = sorted(read | late | {"arrival_us"})
    trace, first = job.trace, span[0]
    numbering = Numbering(trace, columns)

    def follow(rough: Rough) -> None:
        batch = numbering.number(rough)
        if batch.rows:
            order.follow(batch["arrival_us"].astype(np.int64, copy=False), batch.start)

    def lane(sketch: Sketch) -> Callable[[Rough], None]:
        return lambda rough: sketch.update(rough.batch) if rough.batch.rows else None

    return lanes.run(
        lambda item: numbering.read(first + item),
        span[1] - first if sketches else 0,
        [follow, *(lane(sketch) for sketch in sketches.values())],
        threads=job.running.threads,
        enough=enough,
        done=lambda item: counter.add(trace.parts[first + item].rows),
    )
