"""`pair_count`, `pair_gap`, `pair_gap_hist`: how often a user asks a model, and after how long again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from servescope.kernels.frequent import of_gaps
from servescope.kernels.runs import Runs, between
from servescope.tables import category, histogram_table, table
from servescope.views.pair_map import Drawn, PairMap, Rows
from servescope.views.pair_rows import Codes, pair_rows
from servescope.views.sketch import TIMES, Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "user", "model")
COUNT_DOC = "Requests of every pair of user and model that has any."
GAP_DOC = (
    "Gaps above 0 between a pair's consecutive requests, over the whole trace, for pairs that have any; "
    "the median (seconds, off by less than 2.4 %) for highlighted models only."
)
HIST_DOC = (
    "Gaps above 0 between a pair's consecutive requests (seconds), of all pairs with at least 10 such gaps, "
    "100 log bins a decade."
)


@dataclass
class Pairs:
    """pairs: what is known of every pair; drawn: highlighted models; gaps: of these, by `Drawn`'s key."""

    context: Context
    drawn: Drawn = field(init=False)
    pairs: PairMap = field(default_factory=PairMap)
    gaps: Runs = field(default_factory=lambda: Runs(of_gaps()))

    def __post_init__(self) -> None:
        lines = np.full(len(self.context.texts["model"]), -1, np.int32)
        for at, code in enumerate(self.context.highlights):
            lines[code] = at
        self.drawn = Drawn(lines, len(self.context.highlights))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        rows = Rows(int32(batch, "user"), int32(batch, "model"), int64(batch, "arrival_us"))
        for keys, bins in self.pairs.update(rows, self.drawn):
            self.gaps.count(keys, bins)

    def merge(self, later: Pairs) -> None:
        """Fold in the adjacent, later slice, which is used up."""
        for keys, bins in self.pairs.merge(later.pairs, self.drawn):
            self.gaps.count(keys, bins)
        self.gaps.merge(later.gaps)

    def tables(self) -> list[Table]:
        """`pair_count`, `pair_gap` and `pair_gap_hist`, rows by user, then by model."""
        texts = {name: self.context.strings(name) for name in ("user", "model")}
        users, models, requests, gaps = pair_rows(self.pairs.held, *(len(held) for held in texts.values()))
        again = np.flatnonzero(gaps)
        count = {
            "user": category(users, texts["user"]),
            "model": category(models, texts["model"]),
            "requests": (pa.int64(), requests),
        }
        users, models = users[again], models[again]
        gap = {
            "user": category(users, texts["user"]),
            "model": category(models, texts["model"]),
            "n_gaps": (pa.int64(), gaps[again]),
            "p50": self._medians(users, models),
        }
        return [
            table("pair_count", count, COUNT_DOC),
            table("pair_gap", gap, GAP_DOC),
            histogram_table("pair_gap_hist", (), [((), self.pairs.pooled)], HIST_DOC),
        ]

    def _medians(self, users: Codes, models: Codes) -> tuple[pa.DataType, Any]:
        line = self.drawn.lines[models]
        drawn = line >= 0
        held, totals, bins = self.gaps.ranked((0.5,))
        keys = users[drawn].astype(np.int64) * self.drawn.many + line[drawn]
        own = np.searchsorted(held, keys)  # all are there
        found = np.full(len(users), np.nan)
        found[drawn] = between(totals, bins, (0.5,))[own, 0]
        return pa.float64(), pa.array(found, mask=~drawn)


VIEW = View(
    "pairs",
    COLUMNS,
    {
        "pair_count": ("user", "model"),
        "pair_gap": ("user", "model", TIMES),
        "pair_gap_hist": ("user", "model", TIMES),
    },
    Pairs,
)
