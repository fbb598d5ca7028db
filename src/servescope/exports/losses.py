"""What a format cannot hold of a trace: columns, values, facts of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope import schema
from servescope.errors import UsageError
from servescope.exports.target import BOOKKEEPING

if TYPE_CHECKING:
    from servescope.exports.target import Export, Loss
    from servescope.trace import Trace


def losses_of(trace: Trace, chosen: Export) -> list[str]:
    """One sentence a loss, empty if the format holds everything. Raises UsageError if it holds no row.

    A column counts only if some row states a value; the rows are read once for that and for the values.
    """
    missing = [name for name in trace.meta.columns if name not in chosen.holds and name not in BOOKKEEPING]
    stated = _stated(trace, missing)
    losses = [f"column {name} ({schema.BY_NAME[name].meaning})" for name in missing if name in stated]
    return [*losses, *chosen.whole(trace), *_in_values(trace, chosen)]


def _stated(trace: Trace, columns: list[str]) -> set[str]:
    """The columns in which some row has a value."""
    left = list(columns)
    for part in trace.parts:
        if not left:
            break
        table = part.arrow(left)
        left = [name for name in left if table.column(name).null_count == table.num_rows]
    return set(columns) - set(left)


def _in_values(trace: Trace, chosen: Export) -> list[str]:
    if not chosen.losses:
        return []
    columns = sorted({name for loss in chosen.losses for name in loss.columns})
    counts = np.zeros(len(chosen.losses), np.int64)
    for batch in trace.batches(columns):
        for index, loss in enumerate(chosen.losses):
            counts[index] += int(loss.test(batch, trace).sum())
    found = list(zip(chosen.losses, counts.tolist(), strict=True))
    for loss, n in found:
        if loss.drops and n == trace.rows > 0:
            raise UsageError(f"{chosen.name} can hold no request of this trace: {_sentence(loss, n)}.")
    return [_sentence(loss, n) for loss, n in found if n]


def _sentence(loss: Loss, count: int) -> str:
    return (loss.one if count == 1 else loss.many).replace("{n}", f"{count:,}")
