"""`facts`: the size of a trace in one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.trie import Trie
from servescope.tables import stacked
from servescope.views.sketch import Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

CATEGORIES = {"models": "model", "users": "user", "instances": "instance"}
TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
COLUMNS = ("arrival_us", *CATEGORIES.values(), "session_id", *TOKENS, "block_ids")
PIECE = 1 << 16  # ids inserted at a time, so that the set grows by what is new
DOC = (
    "One row. span_s: last - first arrival. Counts are distinct values; null where the source does not "
    "state them. Token sums take unknown as 0 and are null where all are unknown."
)


def add_distinct(distinct: Trie, ids: npt.NDArray[np.uint64]) -> None:
    """Add uint64[n] ids to a flat set. Changes the set."""
    edges = np.append(np.arange(0, len(ids), PIECE), len(ids))
    distinct.insert(np.full(len(edges) - 1, -1, np.int64), edges, ids)


@kernel
def _sum(values: npt.NDArray[np.int32]) -> tuple[int, int]:
    """How many values are known, and their sum."""
    known, total = np.int32(0), np.int64(0)
    for i in range(len(values)):
        # selected, not multiplied by a truth value, which would keep the loop from being vectorised
        known += np.int32(1) if values[i] != schema.NULL_INT32 else np.int32(0)
        total += np.int64(values[i]) if values[i] != schema.NULL_INT32 else np.int64(0)
    return int(known), int(total)


@dataclass
class Facts:
    """Sums, and sets of what is distinct."""

    context: Context
    sums: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    known: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    references: int = 0
    sessions: Trie = field(default_factory=lambda: Trie(flat=True))
    blocks: Trie = field(default_factory=lambda: Trie(flat=True))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads; categories are numbered for all views."""
        return tuple(n for n in held(self.context, COLUMNS) if n not in CATEGORIES.values())

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        for at, name in enumerate(TOKENS):
            if self.context.has(name):
                known, total = _sum(int32(batch, name))
                self.known[at] += known
                self.sums[at] += total
        if self.context.has("session_id"):
            session = int64(batch, "session_id")
            add_distinct(self.sessions, session[session != schema.NULL_INT64].astype(np.uint64))
        self.references += len(batch.block_values)
        add_distinct(self.blocks, batch.block_values)

    def merge(self, later: Facts) -> None:
        """Fold in the adjacent, later slice."""
        self.sums += later.sums
        self.known += later.known
        self.references += later.references
        for own, other in ((self.sessions, later.sessions), (self.blocks, later.blocks)):
            add_distinct(own, other.blocks[: other.used])

    def tables(self) -> list[Table]:
        """`facts`."""
        has, blocks = self.context.has, self.context.has("block_ids")
        values: dict[str, int | float | None] = {
            "requests": self.context.rows,
            "span_s": self.context.last_us / 1e6,
            **{n: len(self.context.strings(c)) if has(c) else None for n, c in CATEGORIES.items()},
            "sessions": self.sessions.used if has("session_id") else None,
            **{n: int(self.sums[i]) if self.known[i] else None for i, n in enumerate(TOKENS)},
            "block_tokens": self.context.meta.block_tokens,
            "block_references": self.references if blocks else None,
            "distinct_blocks": self.blocks.used if blocks else None,
        }
        kinds = {name: pa.float64() if name == "span_s" else pa.int64() for name in values}
        return [stacked("facts", kinds, [list(values.values())], DOC)]


VIEW = View("facts", COLUMNS, {"facts": ()}, Facts)
