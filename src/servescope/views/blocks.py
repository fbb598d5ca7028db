"""Reuse of prefix blocks with an unlimited cache: `block_reuse`, `reuse_ceiling`, `hit_rates`, …"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.trie import Trie, shared_depths
from servescope.schema import NULL_INT64
from servescope.views import block_tables
from servescope.views.block_counts import POSITIONS, PREFIX, SEEN, count_rows, count_seen
from servescope.views.sketch import Context, View, held, int32, int64

if TYPE_CHECKING:
    from servescope.kernels.trie import Inserted
    from servescope.result import Table
    from servescope.trace import Batch

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
NO_BLOCKS, NOT_STATED = -1, -2  # last node of a request whose list is empty, of one without a list


@dataclass
class Seen:
    """What one batch found in the trees of all, of its type and of its session."""

    prefix: Ints
    prefix_type: Ints
    prefix_session: Ints
    anywhere: Ints
    anywhere_type: Ints


@dataclass
class Blocks:
    """Trees of all, of each type and of each session, sets of ids where ids are not chained, and counts.

    ends                    int64[rows] a batch: last node of a request in `tree`
    children, parents       int64[n] a batch: request ids of follow-ups and of their parents
    by_scope, halves, rates, positions   see `block_counts.count_rows`
    """

    context: Context
    tree: Trie = field(default_factory=Trie)
    type_tree: Trie = field(default_factory=Trie)
    session_tree: Trie = field(default_factory=Trie)
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
            linked = np.flatnonzero(parent != NULL_INT64)
            self.children.append(linked + batch.start)
            self.parents.append(parent[linked])

    def _insert(self, batch: Batch, types: npt.NDArray[np.int32]) -> Seen:
        offsets, values = batch.block_offsets, batch.block_values
        scope = int64(batch, "cache_scope") if self.context.has("cache_scope") else np.full(batch.rows, -1)
        scopes = len(self.context.texts.get("cache_scope", ())) + 1
        type_scope = (types + np.int64(1)) * scopes + scope + 1  # type and cache scope in one number
        typed = self.context.has("request_type")
        every = self.tree.insert(scope, offsets, values)
        own = self.type_tree.insert(type_scope, offsets, values) if typed else every
        self._remember(batch, types, every)
        seen, seen_type = every.found, own.found
        if self.context.meta.chained is not True:
            flat = self.ids.insert(scope, offsets, values)
            flat_type = self.type_ids.insert(type_scope, offsets, values) if typed else flat
            count_seen(self.positions, False, offsets, types, flat.nodes, flat.before)
            count_seen(self.positions, True, offsets, types, flat_type.nodes, flat_type.before)
            seen, seen_type = flat.found, flat_type.found
        return Seen(every.found, own.found, self._session(batch, scope, scopes), seen, seen_type)

    def _session(self, batch: Batch, scope: Ints, scopes: int) -> Ints:
        """Leading blocks that earlier requests of the same session had: int64[rows], 0 without a session."""
        found = np.zeros(batch.rows, np.int64)
        if not self.context.has("session_id"):
            return found
        session = int64(batch, "session_id")
        stated = session != NULL_INT64
        lengths = np.diff(batch.block_offsets)
        values = batch.block_values
        if not stated.all():
            values = values[np.repeat(stated, lengths)]
        offsets = np.append(0, np.cumsum(lengths[stated]))
        keys = session[stated] * scopes + scope[stated] + 1
        found[stated] = self.session_tree.insert(keys, offsets, values).found
        return found

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
