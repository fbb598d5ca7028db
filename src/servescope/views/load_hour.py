"""`load_hour`: requests and tokens by hour and endpoint group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.tables import table
from servescope.views.clock import HOUR_US
from servescope.views.sketch import TIMES, Context, View, held, int32, int64
from servescope.views.timeline import Timeline

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

GROUPS = ("chat", "chat_stream", "completion", "completion_stream", "other")
OTHER = 4
COLUMNS = ("arrival_us", "endpoint", "completed_us", "input_tokens", "output_tokens")
DOC = (
    "Requests by hour of the trace clock and endpoint group (none of the four: other). Tokens are "
    "those of requests that completed, unknown counts as 0, in the hour of their arrival."
)


@kernel
def _fold(
    cells: npt.NDArray[np.int64],
    first_hour: int,
    clock_us: int,
    arrival: npt.NDArray[np.int64],
    endpoint: npt.NDArray[np.int32],
    groups: npt.NDArray[np.int64],
    completed: npt.NDArray[np.int64],
    always: bool,
    it: npt.NDArray[np.int32],
    ot: npt.NDArray[np.int32],
) -> None:
    """Count rows in cells, int64[hours, 5, 4], modified.

    groups  int64[endpoints + 1], group of an endpoint code, of null at the end
    always  every request counts as completed
    """
    hour, end = 0, np.int64(-(2**63))  # arrivals are in order, so that a division an hour will do
    for i in range(len(arrival)):
        if arrival[i] >= end:
            hour = (clock_us + arrival[i]) // HOUR_US
            end = (hour + 1) * HOUR_US - clock_us
        done = always | (completed[i] != schema.NULL_INT64)
        at, group = np.uint64(hour - first_hour), np.uint64(groups[endpoint[i]])
        cells[at, group, 0] += 1
        cells[at, group, 1] += done
        cells[at, group, 2] += it[i] if done & (it[i] != schema.NULL_INT32) else 0
        cells[at, group, 3] += ot[i] if done & (ot[i] != schema.NULL_INT32) else 0


@dataclass
class LoadHour:
    """hours: int64[hours, groups, 4]: requests, completed, input tokens, output tokens.

    groups  int64[endpoints + 1], group of an endpoint code that was met, of null at the end
    """

    context: Context
    hours: Timeline = field(default_factory=lambda: Timeline((len(GROUPS), 4)))
    groups: npt.NDArray[np.int64] = field(default_factory=lambda: np.full(1, OTHER, np.int64))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        clock_us = self.context.meta.origin.clock_us
        arrival = int64(batch, "arrival_us")
        self.hours.reach((clock_us + int(arrival[0])) // HOUR_US, (clock_us + int(arrival[-1])) // HOUR_US)
        endpoint = int32(batch, "endpoint")
        if int(endpoint.max()) >= len(self.groups) - 1:
            texts = self.context.so_far("endpoint")
            groups = [GROUPS.index(text) if text in GROUPS else OTHER for text in texts]
            self.groups = np.array([*groups, OTHER], np.int64)
        _fold(
            self.hours.held, self.hours.first, clock_us, arrival, endpoint, self.groups,
            int64(batch, "completed_us"), not self.context.has("completed_us"),
            int32(batch, "input_tokens"), int32(batch, "output_tokens"),
        )  # fmt: skip

    def merge(self, later: LoadHour) -> None:
        """Fold in the adjacent, later slice."""
        self.hours.merge(later.hours)

    def tables(self) -> list[Table]:
        """`load_hour`."""
        hour, group = np.nonzero(self.hours.held[:, :, 0])
        values = self.hours.held[hour, group]
        nothing = [None] * len(hour)
        columns = {
            "hour": (pa.int64(), hour + self.hours.first),
            "endpoint_group": (pa.string(), np.array(GROUPS, object)[group]),
            "requests": (pa.int64(), values[:, 0]),
            "completed_requests": (pa.int64(), values[:, 1]),
            "it_sum_completed": (
                pa.int64(),
                values[:, 2] if self.context.has("input_tokens") else nothing,
            ),
            "ot_sum_completed": (
                pa.int64(),
                values[:, 3] if self.context.has("output_tokens") else nothing,
            ),
        }
        return [table("load_hour", columns, DOC)]


VIEW = View("load_hour", COLUMNS, {"load_hour": (TIMES,)}, LoadHour, filters=("completed_us",))
