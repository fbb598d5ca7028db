"""Balance as logged: load of instances over time, latency by load, and how a user is spread over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.histogram import EDGES
from servescope.tables import bin_columns, coded_texts, table
from servescope.views import derived
from servescope.views.balance_counts import AXIS_BINS, LOAD_METRICS, Counts
from servescope.views.balance_rows import BELOW, Open, pick
from servescope.views.clock import HOUR_US
from servescope.views.lb_rows import LbRows
from servescope.views.sketch import TIMES, Context, View, float64, held, int32, int64
from servescope.views.windows import window_us

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = (
    "arrival_us", "model", "instance", "user", "input_tokens", "output_tokens", "cached_tokens", "ttft_s",
    "completed_us",
)  # fmt: skip
WINDOW_DAYS = 59.0
LEAST_HIT = 0.4  # cached / input of a picked hour
SCOPE = "of the balance models in the balance window"
MINUTE_DOC = (
    f"Requests {SCOPE} by the instance and the minute (trace clock) on which they started; rows without an "
    "instance are left out. tokens: input + output where both are known; cached: unknown counts as 0."
)
LOAD_DOC = (
    f"Latency {SCOPE} by load and length. load: input + output tokens (where both are known) of the model's "
    "requests that started on the same instance in the same clock second, the request itself included, above "
    "0. metric ttft: known time to first token, tokens = input above 0; decode: max(duration - ttft, 0) of "
    "requests with both, tokens = output above 0. Load and tokens in 10, seconds in 100 log bins a decade; a "
    "ttft below 0 is counted in a bin from minus infinity to 0."
)
HOUR_DOC = (
    f"Requests {SCOPE} by user key and hour of the trace clock, rows without an instance included, without a "
    "user left out; unknown tokens count as 0."
)
SPREAD_DOC = (
    "Each user's busiest hour with each balance model (most requests, the earliest of equals) if it has at "
    "least 200 requests and cached / input of at least 0.4, by instance (null: none stated); unknown tokens "
    "count as 0. By model, requests of the hour downwards, hour: the first hour of a model is the study's "
    "top user, the last its least."
)


@dataclass
class Balance:
    """ends: rows of hours that a neighbouring slice may share; counts: of all other hours."""

    context: Context
    window: tuple[int, int] = field(init=False)
    counts: Counts = field(init=False)
    ends: Open = field(default_factory=lambda: Open(HOUR_US))
    rows: LbRows | None = field(init=False)

    def __post_init__(self) -> None:
        options = self.context.options
        self.window = window_us(self.context, options.lb_window_days, WINDOW_DAYS, "--lb-window")
        self.counts = Counts(len(self.context.lb_models))
        self.rows = LbRows(self.context) if options.rows else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        arrival = int64(batch, "arrival_us")
        if arrival[-1] < self.window[0] or arrival[0] >= self.window[1]:
            return
        places = np.full(len(self.context.texts.get("model", ())) + 1, -1, np.int64)
        places[list(self.context.lb_models)] = np.arange(len(self.context.lb_models))
        model, *codes = (int32(batch, name) for name in COLUMNS[1:7])
        numbers, rows = pick(
            places, *self.window, self.context.meta.origin.clock_us, arrival, model, tuple(codes),
            float64(batch, "ttft_s"), derived.durations(batch), derived.latency_bins(batch),
        )  # fmt: skip
        self.ends.feed(rows, self.counts.add)
        if self.rows is not None:
            self.rows.write(batch, numbers)

    def merge(self, later: Balance) -> None:
        """Fold in the adjacent, later slice."""
        self.ends.follow(later.ends, self.counts.add, lambda: self.counts.follow(later.counts))
        if later.rows is not None:
            later.rows.close()

    def tables(self) -> list[Table]:
        """The four tables, by time or by the columns from left to right."""
        if self.rows is not None:
            self.rows.close()
        whole = Counts(len(self.context.lb_models))
        if self.ends.head is not None:
            whole.add(self.ends.head)
        whole.follow(self.counts)
        if len(self.ends.tail):
            whole.add(self.ends.tail)
        return [self._minutes(whole), self._loads(whole), self._hours(whole), self._spread(whole)]

    def _model(self, places: npt.NDArray[np.generic]) -> tuple[pa.DataType, Any]:
        codes = np.array(self.context.lb_models, np.int64)[places.astype(np.int64)]
        return coded_texts(codes, self.context.strings("model"))

    def _tokens(self, sums: npt.NDArray[np.int64], *needed: str) -> tuple[pa.DataType, Any]:
        known = all(self.context.has(name) for name in needed)
        return pa.int64(), sums if known else pa.nulls(len(sums))

    def _minutes(self, whole: Counts) -> Table:
        cells, sums = _joined(whole.minutes)
        columns = {
            "model": self._model(cells[:, 1]),
            "instance": coded_texts(cells[:, 2], self.context.strings("instance")),
            "minute": (pa.int64(), cells[:, 0]),
            "requests": (pa.int64(), cells[:, 3]),
            "tokens": self._tokens(sums[:, 0], "input_tokens", "output_tokens"),
            "cached": self._tokens(sums[:, 1], "cached_tokens"),
        }
        return table("instance_minute", columns, MINUTE_DOC)

    def _hours(self, whole: Counts) -> Table:
        cells, sums = _joined(whole.hours)
        columns = {
            "model": self._model(cells[:, 1]),
            "user": coded_texts(cells[:, 2], self.context.strings("user")),
            "hour": (pa.int64(), cells[:, 0]),
            "n": (pa.int64(), cells[:, 3]),
            "it_sum": self._tokens(sums[:, 0], "input_tokens"),
            "ct_sum": self._tokens(sums[:, 1], "cached_tokens"),
        }
        return table("user_hour", columns, HOUR_DOC)

    def _loads(self, whole: Counts) -> Table:
        packed, counts = whole.loads.sorted()
        keys = packed.astype(np.int64)
        load, tokens, bins = keys >> 21 & 0x1FF, keys >> 12 & 0x1FF, keys & 0xFFF
        below = bins == BELOW
        latency = bin_columns(np.where(below, 0, bins))
        low = np.where(below, -np.inf, latency["bin_low"][1])
        columns = {
            "model": self._model(keys >> 31),
            "metric": (pa.string(), np.array(LOAD_METRICS, object)[keys >> 30 & 1]),
            "load_low": (pa.float64(), EDGES[load * AXIS_BINS]),
            "load_high": (pa.float64(), EDGES[(load + 1) * AXIS_BINS]),
            "tokens_low": (pa.float64(), EDGES[tokens * AXIS_BINS]),
            "tokens_high": (pa.float64(), EDGES[(tokens + 1) * AXIS_BINS]),
            "bin_low": (pa.float64(), low),
            "bin_high": latency["bin_high"],
            "count": (pa.int64(), counts),
        }
        return table("load_latency_cell", columns, LOAD_DOC)

    def _spread(self, whole: Counts) -> Table:
        picked = [
            (place, -s.requests, s.hour, user, s)
            for (place, user), s in whole.busiest.items()
            if s.input and s.cached / s.input >= LEAST_HIT
        ]
        picked.sort(key=lambda row: row[:4])
        sizes = [len(s.instances) for *_, s in picked]
        place, _, hour, user = (
            np.array([row[:4] for row in picked], np.int64).reshape(-1, 4).repeat(sizes, 0).T
        )
        cells = np.concatenate([np.zeros((0, 4), np.int64), *(s.instances for *_, s in picked)])
        columns = {
            "model": self._model(place),
            "user": coded_texts(user, self.context.strings("user")),
            "hour": (pa.int64(), hour),
            "instance": coded_texts(cells[:, 0], self.context.strings("instance")),
            "n": (pa.int64(), cells[:, 1]),
            "it_sum": (pa.int64(), cells[:, 2]),
            "ct_sum": (pa.int64(), cells[:, 3]),
        }
        return table("user_hour_instance", columns, SPREAD_DOC)


def _joined(pieces: list[Any]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    cells = np.concatenate([np.zeros((0, 4), np.int32), *(cells for cells, _ in pieces)])
    return cells, np.concatenate([np.zeros((0, 2), np.int64), *(sums for _, sums in pieces)])


VIEW = View(
    "balance",
    COLUMNS,
    {
        "instance_minute": (TIMES, "model", "instance"),
        "load_latency_cell": (TIMES, "model", "instance", "input_tokens", "output_tokens", "ttft_s"),
        "user_hour": (TIMES, "model", "user"),
        "user_hour_instance": (TIMES, "model", "user", "instance", "input_tokens", "cached_tokens"),
    },
    Balance,
)
