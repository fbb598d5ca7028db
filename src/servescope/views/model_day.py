"""`model_day`: requests and tokens by model and day."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.tables import table
from servescope.views.clock import day_runs
from servescope.views.sketch import TIMES, Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "model", "input_tokens", "output_tokens")
DOC = (
    "Requests and tokens by model and day of the trace clock, completed or not; unknown tokens count "
    "as 0. Rows without a model are left out, unless the source has no models at all."
)


@kernel
def _fold(
    page: npt.NDArray[np.int64],
    model: npt.NDArray[np.int32],
    always: bool,
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
) -> None:
    """Count the rows of one day in page, int64[models, 3], modified; always: row 0 takes all."""
    for i in range(len(model)):
        at = 0 if always else model[i]
        if at >= 0:
            page[at, 0] += 1
            page[at, 1] += it[i] if it[i] != schema.NULL_INT32 else 0
            page[at, 2] += ot[i] if ot[i] != schema.NULL_INT32 else 0


@dataclass
class ModelDay:
    """pages: day -> int64[models, 3]: requests, input, output."""

    context: Context
    pages: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        clock = int64(batch, "arrival_us") + self.context.meta.origin.clock_us
        model, it, ot = (int32(batch, name) for name in COLUMNS[1:])
        for day, low, high in day_runs(clock):
            _fold(self._page(day), model[low:high], not self.context.has("model"), it[low:high], ot[low:high])

    def _page(self, day: int) -> npt.NDArray[np.int64]:
        """The page of a day, with a row for every model."""
        models = max(1, len(self.context.texts.get("model", ())))
        page = self.pages.get(day)
        if page is None or len(page) < models:  # of a state from before the last models came
            own, page = page, np.zeros((models, 3), np.int64)
            if own is not None:
                page[: len(own)] = own
            self.pages[day] = page
        return page

    def merge(self, later: ModelDay) -> None:
        """Fold in the adjacent, later slice."""
        for day, page in later.pages.items():
            own = self.pages.get(day)
            if own is not None:  # of a state from before the last models came: a shorter page
                page[: len(own)] += own
            self.pages[day] = page

    def tables(self) -> list[Table]:
        """`model_day`, by day, then by model in order of first appearance."""
        used = {day: np.flatnonzero(page[:, 0]) for day, page in sorted(self.pages.items())}
        none = np.zeros(0, np.int64)
        model = np.concatenate([none, *used.values()])
        days = np.repeat(np.array(list(used), np.int64), [len(at) for at in used.values()])
        values = np.concatenate(
            [np.zeros((0, 3), np.int64), *(self.pages[day][at] for day, at in used.items())]
        )
        texts, rows = self.context.strings("model"), len(model)
        names = texts.take(pa.array(model)) if len(texts) else pa.nulls(rows, pa.string())
        nothing = pa.nulls(rows, pa.int64())
        columns = {
            "model": (pa.string(), names),
            "day": (pa.int64(), days),
            "requests": (pa.int64(), values[:, 0]),
            "it_sum": (pa.int64(), values[:, 1] if self.context.has("input_tokens") else nothing),
            "ot_sum": (pa.int64(), values[:, 2] if self.context.has("output_tokens") else nothing),
        }
        return [table("model_day", columns, DOC)]


VIEW = View("model_day", COLUMNS, {"model_day": (TIMES,)}, ModelDay, filters=("model",))
