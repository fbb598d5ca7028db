"""`user_stats` and `model_stats`: typical request shape and cached share of each user and model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.tables import table
from servescope.views.clock import months_of
from servescope.views.key_tally import KeyTally, shapes_of
from servescope.views.sketch import Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "model", "user", "cohort", "input_tokens", "output_tokens", "cached_tokens")
ABOVE_COHORT = 1 << 15  # cohorts are held less this: below 0, so that 0 is "none" and the least wins
SHAPE = (
    "n_shape: requests with input and output above 0; it_median, ot_median: their median tokens, from 100 "
    "log bins a decade (off by less than 2.4 %), null without such requests. n_hit: requests with input "
    "above 0 and known cached tokens; hit_sum: sum of their cached / input, each in [0, 1] and rounded down "
    "to 2^-32."
)
USER_DOC = (
    "Every user key. first_start_us: its first request on the trace clock. cohort: month of the person's "
    "first appearance from the side table, the least over the key's rows; without a side table the month of "
    f"first_start_us. {SHAPE}"
)
MODEL_DOC = f"Every model. {SHAPE}"


@kernel
def _first(
    first: npt.NDArray[np.int64],
    cohorts: npt.NDArray[np.int32],
    user: npt.NDArray[np.int32],
    arrival: npt.NDArray[np.int64],
    cohort: npt.NDArray[np.int32],
) -> None:
    """Note each user's first arrival + 1 and least cohort - ABOVE_COHORT (0: none); both modified."""
    for i in range(len(user)):
        if user[i] >= 0:
            if first[user[i]] == 0:
                first[user[i]] = arrival[i] + 1
            if cohort[i] != schema.NULL_INT32:
                cohorts[user[i]] = min(cohorts[user[i]], cohort[i] - ABOVE_COHORT)


@dataclass
class KeyStats:
    """first int64[users], arrival + 1; cohorts int32[users], less ABOVE_COHORT; tallies by user and model."""

    context: Context
    first: npt.NDArray[np.int64] = field(init=False)
    cohorts: npt.NDArray[np.int32] = field(init=False)
    users: KeyTally = field(init=False)
    models: KeyTally = field(init=False)

    def __post_init__(self) -> None:
        users = len(self.context.texts.get("user", ()))
        self.first, self.cohorts = np.zeros(users, np.int64), np.zeros(users, np.int32)
        self.users, self.models = KeyTally(users), KeyTally(len(self.context.texts.get("model", ())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        it, ot, ct = (int32(batch, name) for name in COLUMNS[4:])
        values = shapes_of(it, ot, ct, self.context.has("input_tokens"), self.context.has("output_tokens"))
        if self.context.has("user"):
            user = int32(batch, "user")
            _first(self.first, self.cohorts, user, int64(batch, "arrival_us"), int32(batch, "cohort"))
            self.users.add(user, values)
        if self.context.has("model"):
            self.models.add(int32(batch, "model"), values)

    def merge(self, later: KeyStats) -> None:
        """Fold in the adjacent, later slice."""
        own = slice(int(later.users.span[0]), int(later.users.span[1]))
        if own.start < own.stop:
            self.first[own] = np.where(self.first[own] == 0, later.first[own], self.first[own])
            self.cohorts[own] = np.minimum(self.cohorts[own], later.cohorts[own])
        self.users.merge(later.users)
        self.models.merge(later.models)

    def tables(self) -> list[Table]:
        """`user_stats` and `model_stats`, by code."""
        texts = self.context.texts
        has = {name: self.context.has(f"{full}_tokens") for name, full in
               (("it", "input"), ("ot", "output"), ("ct", "cached"))}  # fmt: skip
        users = {
            "user": (pa.string(), list(texts.get("user", ()))),
            **self._appearances(),
            **self.users.columns(has),
        }
        models = {"model": (pa.string(), list(texts.get("model", ()))), **self.models.columns(has)}
        return [table("user_stats", users, USER_DOC), table("model_stats", models, MODEL_DOC)]

    def _appearances(self) -> dict[str, tuple[pa.DataType, Any]]:
        timed = self.context.meta.origin.kind != "none"
        clock = self.first - 1 + self.context.meta.origin.clock_us
        unknown = np.full(len(clock), not timed)
        if self.context.has("cohort"):
            cohort = pa.array(self.cohorts + ABOVE_COHORT, pa.int32(), mask=self.cohorts == 0)
        else:
            cohort = pa.array(months_of(clock), pa.int32(), mask=unknown)
        return {
            "cohort": (pa.int32(), cohort),
            "first_start_us": (pa.int64(), pa.array(clock, pa.int64(), mask=unknown)),
        }


def notes(context: Context) -> list[str]:
    """That cohorts are guessed, where they are."""
    if context.has("cohort") or not context.has("user"):
        return []
    return ["user_stats: without a side table of cohorts, cohort is the month of the key's first request"]


VIEW = View(
    "key_stats",
    COLUMNS,
    {"user_stats": ("user",), "model_stats": ("model",)},
    KeyStats,
    filters=("input_tokens", "output_tokens"),
    notes=notes,
)
