"""`limits`: what this trace cannot tell, from its columns, its clock and its span."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.room import grown
from servescope.tables import stacked
from servescope.views.clock import DAY_US, HOUR_US
from servescope.views.sketch import Context, View, float64, held, int32, int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.result import Table
    from servescope.trace import Batch

COUNTED = ("completed_us", "ttft_s", "output_tokens", "input_tokens", "cached_tokens", "status", "user")
COLUMNS = ("arrival_us", *COUNTED)
BATCHED = 2.0  # requests a distinct arrival time, above which arrivals look batched
DOMINANT = 0.5  # share of all requests above which one user is the trace
DOC = "What the columns, the clock and the span of this trace do not let anyone conclude."
LACKING = {
    "completed_us": ("latency", "no end-to-end latency, decode time or concurrency", "no completion times"),
    "ttft_s": ("latency", "no time to first token, no queueing or prefill time", "no times to first token"),
    "output_tokens": ("lengths", "no decode work and no output rates", "no output token counts"),
    "status": ("reliability", "no failures or retries", "no outcome of a request"),
    "user": ("population", "no users: no shares, returns or fairness", "no user"),
    "model": ("models", "no models: no mix, turnover or model-bound caching", "no model"),
    "session_id": ("sessions", "no stated sessions: turns and same-session reuse are unknown", "no session"),
    "instance": ("balance", "no load per instance, nothing on the balancer", "no serving instance"),
    "cached_tokens": ("caching", "not what a production cache really hit", "no cached token counts"),
    "block_ids": ("reuse", "no reuse of prefixes across requests", "no prefix blocks"),
    "request_type": ("mix", "no mix of request types", "no request type"),
}


@kernel
def _count(counts: npt.NDArray[np.int64], user: npt.NDArray[np.int32]) -> None:
    """Count rows by code in counts, int64[1 + users], null first, modified."""
    for i in range(len(user)):
        counts[np.uint64(np.int64(user[i]) + 1)] += 1  # unsigned: nothing to be looked up from the end


@kernel
def _stated(values: npt.NDArray[Any], null: int) -> int:
    """How many values are not null."""
    stated = np.int32(0)
    for i in range(len(values)):
        # selected, not added as a truth value, which would keep the loop from being vectorised
        stated += np.int32(1) if values[i] != null else np.int32(0)
    return int(stated)


@kernel
def _numbers(values: npt.NDArray[np.float64]) -> int:
    """How many values are not NaN."""
    numbers = np.int32(0)
    for i in range(len(values)):
        numbers += np.int32(1) if values[i] == values[i] else np.int32(0)
    return int(numbers)


@kernel
def _changes(values: npt.NDArray[np.int64]) -> int:
    """How many values differ from the one before."""
    changes = np.int32(0)
    for i in range(1, len(values)):
        changes += np.int32(1) if values[i] != values[i - 1] else np.int32(0)
    return int(changes)


def _known(batch: Batch, name: str) -> int:
    """How many rows state a column."""
    if name == "ttft_s":
        return _numbers(float64(batch, name))
    null = schema.BY_NAME[name].null
    assert isinstance(null, int)
    return _stated((int64 if name == "completed_us" else int32)(batch, name), null)


@dataclass
class Limits:
    """Distinct arrival times, known values of some columns, requests of each user (users: no user first)."""

    context: Context
    first_us: int = -1
    last_us: int = -1
    distinct: int = 0
    known: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(COUNTED), np.int64))
    users: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        arrival = int64(batch, "arrival_us")
        self.distinct += _changes(arrival) + (int(arrival[0]) != self.last_us)
        self.first_us = int(arrival[0]) if self.first_us < 0 else self.first_us
        self.last_us = int(arrival[-1])
        for at, name in enumerate(COUNTED):
            if self.context.has(name):
                self.known[at] += _known(batch, name)
        if self.context.has("user"):
            user = int32(batch, "user")
            self.users = grown(self.users, int(user.max()) + 2)
            _count(self.users, user)

    def merge(self, later: Limits) -> None:
        """Fold in the adjacent, later slice."""
        if later.first_us < 0:
            return
        self.distinct += later.distinct - (later.first_us == self.last_us)
        self.first_us = later.first_us if self.first_us < 0 else self.first_us
        self.last_us = later.last_us
        self.known += later.known
        self.users = grown(self.users, len(later.users))
        self.users[: len(later.users)] += later.users

    def tables(self) -> list[Table]:
        """`limits`."""
        rows = [*self._time(), *self._columns(), *self._partly(), *self._users()]
        kinds = dict.fromkeys(("view", "limit", "because"), pa.string())
        return [stacked("limits", kinds, rows, DOC)]

    def _time(self) -> Iterator[tuple[str, str, str]]:
        kind, span = self.context.meta.origin.kind, self.context.last_us
        if kind == "none":
            yield (
                "load",
                "nothing on rates, gaps, bursts or order",
                "the source has no arrival times",
            )
            return
        shown = duration(span)
        if span < 2 * HOUR_US:
            yield "load", "no hourly trend", f"the trace spans {shown}"
        if span < 2 * DAY_US:
            yield "load", "no daily rhythm", f"the trace spans {shown}"
        if span < 14 * DAY_US:
            yield "load", "no weekly rhythm", f"the trace spans {shown}"
        if span < 62 * DAY_US:
            yield "evolution", "no drift from month to month", f"the trace spans {shown}"
        if kind == "relative":
            because = "times count from the start of the trace; when it began is unknown"
            yield "load", "hours and days are elapsed, not hours of a calendar day", because
        if kind == "nominal":
            because = "the source shifted its calendar to 1970"
            yield "load", "hours and weekdays are nominal, shifted by an unknown amount", because
        if self.context.rows > BATCHED * self.distinct:
            yield (
                "arrivals",
                "gaps and bursts below the source's tick are unknown",
                self._batches(),
            )

    def _batches(self) -> str:
        text = f"{self.context.rows:,} requests share {self.distinct:,} distinct arrival times"
        if self.distinct < 2:
            return text
        apart = self.context.last_us / 1e6 / (self.distinct - 1)
        return f"{text}, {apart:.3g} s apart on average: arrivals are batched"

    def _columns(self) -> Iterator[tuple[str, str, str]]:
        for name, (view, limit, lacking) in LACKING.items():
            if not self.context.has(name):
                yield view, limit, f"the source has {lacking}"
        if not (self.context.has("completed_us") and self.context.has("session_id")):
            missing = [n for n in ("completed_us", "session_id") if not self.context.has(n)]
            yield "sessions", "no think times", f"they need {' and '.join(missing)}, which the source lacks"
        if self.context.has("block_ids") and self.context.meta.chained is None:
            because = "it is unknown whether equal block ids mean equal whole prefixes"
            yield "reuse", "prefixes are matched by ids in order, and may be over- or undercounted", because
        yield (
            "platform",
            "neither the platform's total load nor how it was sampled",
            "it states its own rows",
        )

    def _partly(self) -> Iterator[tuple[str, str, str]]:
        rows = self.context.rows
        for at, name in enumerate(COUNTED):
            known = int(self.known[at])
            if self.context.has(name) and known < rows and name not in ("user", "status"):
                limit = f"{name} statistics describe {known:,} of {rows:,} requests"
                yield LACKING.get(name, ("lengths", "", ""))[0], limit, "it is unknown for the others"

    def _users(self) -> Iterator[tuple[str, str, str]]:
        most = int(self.users[1:].max(initial=0))
        if most > DOMINANT * self.context.rows:
            share = most / self.context.rows
            because = f"one user sent {share:.1%} of the requests"
            yield "population", "averages over requests describe one user, not the population", because


def duration(us: int) -> str:
    """A span of time in words: seconds, minutes, hours or days.

    >>> duration(3_536_999_000)
    '59 minutes'
    """
    units = [("day", DAY_US), ("hour", HOUR_US), ("minute", 60_000_000)]
    for name, unit in units:
        if us >= 2 * unit:
            return f"{us / unit:.3g} {name}s" if us < 10 * unit else f"{us / unit:,.0f} {name}s"
    return f"{us / 1e6:.3g} seconds"


VIEW = View("limits", COLUMNS, {"limits": ()}, Limits)
