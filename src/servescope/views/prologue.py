"""What is fixed before the scan: category codes, the span, the highlighted models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from servescope import schema
from servescope.engine import local
from servescope.errors import unknown_name
from servescope.views.names import Names
from servescope.views.sketch import Context, ViewOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.trace import Trace
    from servescope.views.sketch import View

HIGHLIGHTS = 3
READS_HIGHLIGHTS = {"value_hist", "pair_gap"}  # tables
READS_BALANCE = {"instance_minute", "load_latency_cell", "user_hour", "user_hour_instance"}
LATE = {"user", "instance", "endpoint"}  # numbered while a scan reads all rows in order


def prologue(
    trace: Trace, views: Sequence[View], options: ViewOptions, *, threads: int = 1, late: bool = False
) -> Context:
    """The context of a scan by these views.

    late  the scan numbers the texts of `LATE` itself

    Reads the other category columns that they need, once, and the last arrival. Raises UsageError for
    a highlighted or balance model that the trace does not have.
    """
    wanted = {name for view in views for name in view.columns if trace.has(name)}
    categories = [name for name in schema.CATEGORIES if name in wanted]
    early = [name for name in categories if not (late and name in LATE)]
    trace.survey(early, each=partial(local.map, threads=threads))
    tables = {name for view in views for name in view.tables} if "model" in categories else set()
    chosen = {"highlights": READS_HIGHLIGHTS & tables, "lb_models": READS_BALANCE & tables}
    codes = _models(trace, {name: getattr(options, name) for name, readers in chosen.items() if readers})
    texts = Names(trace, tuple(categories))
    return Context(trace.meta, trace.rows, trace.last_us, texts, options=options, **codes)


def _models(trace: Trace, chosen: dict[str, tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    """Codes of chosen models; where none are chosen, of those with most requests."""
    codes = trace.codes("model") if chosen else {}
    for text in (text for texts in chosen.values() for text in texts):
        if text not in codes:
            raise unknown_name("model", text, codes)
    found = {
        name: tuple(dict.fromkeys(codes[text] for text in texts)) for name, texts in chosen.items() if texts
    }
    return dict.fromkeys(chosen, () if len(found) == len(chosen) else _heaviest(trace)) | found


def _heaviest(trace: Trace) -> tuple[int, ...]:
    heaviest = np.argsort(-trace.category("model").counts, kind="stable")[:HIGHLIGHTS]
    return tuple(int(code) for code in heaviest)
