"""`user_stats` and `model_stats`: typical request shape and cached share of each user and model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.prefetch import prefetch
from servescope.kernels.room import cut, grown
from servescope.tables import table
from servescope.views.clock import months_of
from servescope.views.derived import token_bins
from servescope.views.key_tally import AHEAD, KeyTally, hits_of
from servescope.views.sketch import Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "model", "user", "cohort", "input_tokens", "output_tokens", "cached_tokens")
FIRST, COHORT = range(2)  # of what is known of a user
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
def _meet(
    met: npt.NDArray[np.int64],
    user: npt.NDArray[np.int32],
    arrival: npt.NDArray[np.int64],
    cohort: npt.NDArray[np.int32],
) -> None:
    """Note each user's first arrival + 1 and least cohort - ABOVE_COHORT (0: none): int64[users, 2]."""
    for begin in range(0, len(user), AHEAD):
        end = min(begin + AHEAD, len(user))
        for i in range(begin, end):
            prefetch(met, np.int64(user[i]) * 2)
        for i in range(begin, end):
            if user[i] >= 0:
                who = np.uint64(user[i])
                # written where it changes, which is seldom
                if met[who, FIRST] == 0:
                    met[who, FIRST] = arrival[i] + 1
                month = np.int64(cohort[i]) - ABOVE_COHORT
                month = month if cohort[i] != schema.NULL_INT32 else np.int64(0)
                if month < met[who, COHORT]:
                    met[who, COHORT] = month


@dataclass
class KeyStats:
    """met int64[users met so far, 2], see `_meet`; tallies by user and by model."""

    context: Context
    met: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    users: KeyTally = field(default_factory=KeyTally)
    models: KeyTally = field(default_factory=KeyTally)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        has_it, has_ot = self.context.has("input_tokens"), self.context.has("output_tokens")
        it_bin, ot_bin = token_bins(batch, "input_tokens"), token_bins(batch, "output_tokens")
        hits = hits_of(int32(batch, "input_tokens"), int32(batch, "cached_tokens"))
        if has_it != has_ot:  # the one that is there stands for both
            it_bin = ot_bin = it_bin if has_it else ot_bin
        elif not has_it:  # every row counts
            it_bin = ot_bin = np.ones(batch.rows, np.int16)
        if self.context.has("user"):
            user = int32(batch, "user")
            self.met = grown(self.met, 1 + int(user.max()))
            _meet(self.met, user, int64(batch, "arrival_us"), int32(batch, "cohort"))
            self.users.add(user, hits, it_bin, ot_bin)
        if self.context.has("model"):
            self.models.add(int32(batch, "model"), hits, it_bin, ot_bin)

    def merge(self, later: KeyStats) -> None:
        """Fold in the adjacent, later slice."""
        self.met = grown(self.met, len(later.met))
        mine, other = self.met[: len(later.met)], later.met
        mine[:, FIRST] = np.where(mine[:, FIRST] == 0, other[:, FIRST], mine[:, FIRST])
        mine[:, COHORT] = np.minimum(mine[:, COHORT], other[:, COHORT])
        self.users.merge(later.users)
        self.models.merge(later.models)

    def tables(self) -> list[Table]:
        """`user_stats` and `model_stats`, by code."""
        has = {name: self.context.has(f"{full}_tokens") for name, full in
               (("it", "input"), ("ot", "output"), ("ct", "cached"))}  # fmt: skip
        user, model = (self.context.strings(name) for name in ("user", "model"))
        users = {
            "user": (pa.string(), user),
            **self._appearances(len(user)),
            **self.users.columns(len(user), has),
        }
        models = {"model": (pa.string(), model), **self.models.columns(len(model), has)}
        return [table("user_stats", users, USER_DOC), table("model_stats", models, MODEL_DOC)]

    def _appearances(self, users: int) -> dict[str, tuple[pa.DataType, Any]]:
        timed = self.context.meta.origin.kind != "none"
        met = cut(self.met, users)
        clock = met[:, FIRST] - 1 + self.context.meta.origin.clock_us
        unknown = np.full(len(clock), not timed)
        if self.context.has("cohort"):
            months = met[:, COHORT]
            cohort = pa.array((months + ABOVE_COHORT).astype(np.int32), pa.int32(), mask=months == 0)
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
