"""Reuse of prefix blocks with an unlimited cache: `block_reuse`, `reuse_ceiling`, `hit_rates`, …"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.owners import Owners
from servescope.kernels.trie import Trie, shared_depths
from servescope.parents import follow_ups
from servescope.trace import Batch
from servescope.views import block_tables
from servescope.views.block_counts import POSITIONS, PREFIX, SEEN, count_rows, count_seen
from servescope.views.sketch import Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.kernels.trie import Inserted
    from servescope.result import Table

Ints = npt.NDArray[np.int64]
COLUMNS = (
    "arrival_us",
    "block_ids",
    "request_type",
    "input_tokens",
    "cache_scope",
    "session_id",
    "parent_id",
)
PIECE_ROWS = 1 << 13  # rows handled at a time: their nodes stay small beside the tree
NO_BLOCKS, NOT_STATED = -1, -2  # last node of a request whose list is empty, of one without a list


@dataclass
class Seen:
    """What a run of rows found: leading blocks of all, of the type, of the session; blocks anywhere."""

    prefix: Ints
    prefix_type: Ints
    prefix_session: Ints
    anywhere: Ints
    anywhere_type: Ints


@dataclass
class Blocks:
    """One tree of all prompts, who went along its nodes, sets of ids where ids are not chained, counts.

    ends, types, lengths    [rows] a piece: last node in `tree`, type code, blocks
    children, parents       int64[n] a piece: request ids of follow-ups and of their parents
    by_scope, halves, rates, positions   see `block_counts.count_rows`
    """

    context: Context
    tree: Trie = field(default_factory=Trie)
    type_owners: Owners = field(default_factory=Owners)
    session_owners: Owners = field(default_factory=Owners)
    ids: Trie = field(default_factory=lambda: Trie(flat=True))
    type_ids: Trie = field(default_factory=lambda: Trie(flat=True))
    ends: list[Ints] = field(default_factory=list)
    types: list[npt.NDArray[np.int32]] = field(default_factory=list)
    lengths: list[Ints] = field(default_factory=list)
    children: list[Ints] = field(default_factory=list)
    parents: list[Ints] = field(default_factory=list)
    by_scope: Ints = field(init=False)
    positions: Ints = field(init=False)
    halves: Ints = field(default_factory=lambda: np.zeros((2, 7), np.int64))
    rates: Ints = field(default_factory=lambda: np.zeros(6, np.int64))

    def __post_init__(self) -> None:
        scopes = len(self.context.texts.get("request_type", ())) + 2
        self.by_scope = np.zeros((scopes, 3), np.int64)
        self.positions = np.zeros((scopes, POSITIONS, 3), np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        for low in range(0, batch.rows, PIECE_ROWS):
            self._piece(_cut(batch, low, min(low + PIECE_ROWS, batch.rows)))

    def _piece(self, batch: Batch) -> None:
        types = int32(batch, "request_type")
        found = self._insert(batch, types)
        count_rows(
            self.by_scope, self.halves, self.rates, self.positions,
            batch.start, self.context.rows // 2, self.context.meta.block_tokens or 1,
            batch.block_offsets, batch.block_null, types, int32(batch, "input_tokens"),
            found.prefix, found.prefix_type, found.prefix_session, found.anywhere, found.anywhere_type,
        )  # fmt: skip
        if self.context.has("parent_id"):
            parent = int64(batch, "parent_id")
            linked = follow_ups(parent, self.context.rows)
            self.children.append(linked + batch.start)
            self.parents.append(parent[linked])

    def _insert(self, batch: Batch, types: npt.NDArray[np.int32]) -> Seen:
        offsets, values = batch.block_offsets, batch.block_values
        scope = np.full(batch.rows, -1, np.int64)
        if self.context.has("cache_scope"):
            scope = int64(batch, "cache_scope")
        every = self.tree.insert(scope, offsets, values)
        prefix = prefix_type = every.found
        session = np.zeros(batch.rows, np.int64)
        if self.context.has("request_type"):
            codes = types.astype(np.int64) + 1  # rows without a type are a series of their own
            prefix_type = self.type_owners.visit(self.tree, codes, offsets, every.nodes)
        if self.context.has("session_id"):
            ids = int64(batch, "session_id")
            session = self.session_owners.visit(self.tree, ids, offsets, every.nodes)
        self._remember(batch, types, every)
        if self.context.meta.chained is True:  # an id seen anywhere was seen as this prefix
            return Seen(prefix, prefix_type, session, prefix, prefix_type)
        seen = self._anywhere(self.ids, scope, batch, types, prefix, False)
        seen_type = seen
        if self.context.has("request_type"):
            scopes = len(self.context.texts.get("cache_scope", ())) + 1
            keys = (types + np.int64(1)) * scopes + scope + 1  # type and cache scope in one number
            seen_type = self._anywhere(self.type_ids, keys, batch, types, prefix_type, True)
        return Seen(prefix, prefix_type, session, seen, seen_type)

    def _anywhere(
        self,
        ids: Trie,
        scope: Ints,
        batch: Batch,
        types: npt.NDArray[np.int32],
        prefix: Ints,
        own_scope: bool,
    ) -> Ints:
        """Blocks whose id was in an earlier request of the scope; those of the prefix were, so only the
        rest is looked up."""
        found = ids.insert(scope, batch.block_offsets, batch.block_values, prefix)
        count_seen(self.positions, own_scope, batch.block_offsets, types, found.nodes, found.before)
        return prefix + found.found

    def _remember(self, batch: Batch, types: npt.NDArray[np.int32], every: Inserted) -> None:
        if not self.context.has("parent_id"):
            return
        ends = batch.block_offsets[1:]
        empty = ends == batch.block_offsets[:-1]
        last = np.full(batch.rows, NO_BLOCKS, np.int64)
        last[~empty] = every.nodes[ends[~empty] - 1]
        self.ends.append(np.where(batch.block_null, NOT_STATED, last))
        self.types.append(types)
        self.lengths.append(ends - batch.block_offsets[:-1])

    def merge(self, later: Blocks) -> None:
        """Not possible: what a block finds depends on all rows before it; the driver never asks."""
        raise NotImplementedError("block views run unsliced")

    def matched(self) -> Ints | None:
        """int64[scopes, 3]: follow-ups, their blocks, blocks shared with the parent; None if not stated.

        Pairs of which one states no blocks are left out. A parent may come later in the trace.
        """
        if not self.ends:
            return None
        ends, children = np.concatenate(self.ends), np.concatenate(self.children)
        parents, lengths = np.concatenate(self.parents), np.concatenate(self.lengths)
        known = (ends[children] != NOT_STATED) & (ends[parents] != NOT_STATED)
        children, parents = children[known], parents[known]
        tree = self.tree
        shared = shared_depths(tree.parents, tree.depths, ends[children], ends[parents])
        scopes = len(self.by_scope)
        own = (np.concatenate(self.types)[children].astype(np.int64) % (scopes - 1)) + 1
        sums = np.zeros((scopes, 3), np.int64)
        for at, values in enumerate((np.ones(len(own), np.int64), lengths[children], shared)):
            np.add.at(sums[:, at], own, values)
            sums[0, at] = values.sum()
        return sums

    def tables(self) -> list[Table]:
        """The four tables."""
        if self.context.meta.chained is True:
            self.positions[:, :, SEEN] = self.positions[:, :, PREFIX]
        return [
            block_tables.block_reuse(self.context, self.by_scope, self.matched()),
            block_tables.reuse_ceiling(self.context, self.halves),
            block_tables.hit_rates(self.halves, self.rates),
            block_tables.reuse_position(self.context, self.positions),
        ]


def _cut(batch: Batch, low: int, high: int) -> Batch:
    """The rows `low` up to before `high` of a batch, without copying."""
    offsets = batch.block_offsets[low : high + 1]
    return Batch(
        batch.start + low,
        high - low,
        {name: values[low:high] for name, values in batch.columns.items()},
        offsets - offsets[0],
        batch.block_values[offsets[0] : offsets[-1]],
        batch.block_null[low:high],
    )


def _notes(context: Context) -> list[str]:
    if context.meta.chained is not None or not context.has("block_ids"):
        return []
    return ["it is not known whether block ids are chained; prefixes are matched by their ids in order"]


VIEW = View(
    "blocks",
    COLUMNS,
    {
        "block_reuse": ("block_ids",),
        "reuse_ceiling": ("block_ids",),
        "hit_rates": ("block_ids",),
        "reuse_position": ("block_ids",),
    },
    Blocks,
    ordered=True,
    notes=_notes,
)
