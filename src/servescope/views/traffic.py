"""The traffic of each request type: `rate`, `arrival_stats`, lengths, `type_summary`, `type_share`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from servescope.views import arrivals, traffic_tables
from servescope.views.arrivals import Arrivals
from servescope.views.derived import token_bins
from servescope.views.lengths import NONE, Lengths
from servescope.views.sketch import TIMES, Context, View, held, int32, int64
from servescope.views.turns import Turns

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = (
    "arrival_us",
    "request_type",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "status",
    "parent_id",
    "turn",
)
TABLES: dict[str, tuple[str, ...]] = {
    "rate": (TIMES,),
    "arrival_stats": (TIMES,),
    "type_summary": (),
    "type_share": ("request_type",),
    "length_ccdf": (),
    "length_stats": (),
}


@dataclass
class Traffic:
    """Three parts that share the columns of a batch."""

    context: Context
    arrivals: Arrivals = field(init=False)
    lengths: Lengths = field(init=False)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.context)
        self.lengths = Lengths(self.context)
        self.turns = Turns(self.context)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        has = self.context.has
        types, status = (int32(batch, name) if has(name) else NONE for name in ("request_type", "status"))
        tokens = [int32(batch, name) for name in COLUMNS[2:5]]
        self.arrivals.update(int64(batch, "arrival_us"), types, *tokens[:2])
        self.lengths.update(types, status, tokens, [token_bins(batch, name) for name in COLUMNS[2:5]])
        if has("turn") or has("parent_id"):
            types = int32(batch, "request_type")
            self.turns.update(types, int64(batch, "parent_id"), int32(batch, "turn"))

    def merge(self, later: Traffic) -> None:
        """Fold in the adjacent, later slice."""
        self.arrivals.merge(later.arrivals)
        self.lengths.merge(later.lengths)
        self.turns.merge(later.turns)

    def tables(self) -> list[Table]:
        """The six tables."""
        parts = (self.context, self.arrivals, self.lengths)
        return [
            traffic_tables.rate(*parts[:2]),
            traffic_tables.arrival_stats(*parts[:2]),
            traffic_tables.type_summary(*parts, self.turns),
            traffic_tables.type_share(*parts[:2]),
            *traffic_tables.lengths(self.context, self.lengths),
        ]


VIEW = View("traffic", COLUMNS, TABLES, Traffic, notes=arrivals.notes)
