"""What is fixed before the scan: category codes, the span, the highlighted models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope import schema
from servescope.errors import unknown_name
from servescope.views.sketch import Context, ViewOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.trace import Trace
    from servescope.views.sketch import View

HIGHLIGHTS = 3
READS_HIGHLIGHTS = "value_hist"


def prologue(trace: Trace, views: Sequence[View], options: ViewOptions) -> Context:
    """The context of a scan by these views.

    Reads the category columns that they need, and the last arrival. Raises UsageError for a
    highlighted model that the trace does not have.
    """
    wanted = {name for view in views for name in view.columns if trace.has(name)}
    texts = {name: trace.names(name) for name in schema.CATEGORIES if name in wanted}
    highlights: tuple[int, ...] = ()
    if "model" in texts and any(READS_HIGHLIGHTS in view.tables for view in views):
        highlights = _highlights(trace, options)
    return Context(trace.meta, trace.rows, _last_us(trace), texts, highlights, options)


def _last_us(trace: Trace) -> int:
    # parts may be empty (a row group without rows), so the last row can lie before the last part
    for index in reversed(range(len(trace.parts))):
        if trace.parts[index].rows:
            (batch,) = trace.batches(["arrival_us"], first=index, last=index + 1)
            return int(batch["arrival_us"][-1])
    return 0


def _highlights(trace: Trace, options: ViewOptions) -> tuple[int, ...]:
    codes = trace.codes("model")
    for text in options.highlights:
        if text not in codes:
            raise unknown_name("model", text, codes)
    if options.highlights:
        return tuple(dict.fromkeys(codes[text] for text in options.highlights))
    counts = np.zeros(len(codes) + 1, np.int64)
    for batch in trace.batches(["model"]):
        counts += np.bincount(batch["model"].astype(np.int64) + 1, minlength=len(counts))
    heaviest = np.argsort(-counts[1:], kind="stable")[:HIGHLIGHTS]
    return tuple(int(code) for code in heaviest)
