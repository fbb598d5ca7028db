"""Which requests of a type belong to a conversation of several turns, as the source states it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.parents import follow_ups

if TYPE_CHECKING:
    from servescope.views.sketch import Context

Ints = npt.NDArray[np.int64]


@dataclass
class Turns:
    """Runs of flags, resolved at the end: a parent may lie in another slice.

    linked   bool[rows] a batch: the row has a parent in the trace
    types    int32[rows] a batch: type code
    parents  int64[n] a batch: request ids of those parents
    most     int64[types + 1], largest stated turn, 0 for none
    """

    context: Context
    linked: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    types: list[npt.NDArray[np.int32]] = field(default_factory=list)
    parents: list[Ints] = field(default_factory=list)
    most: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.most = np.zeros(len(self.context.texts.get("request_type", ())) + 1, np.int64)

    def update(self, types: npt.NDArray[np.int32], parent: Ints, turn: npt.NDArray[np.int32]) -> None:
        """Fold in the next rows: type code, parent, stated turn (nulls as in `schema`)."""
        if self.context.has("turn"):
            np.maximum.at(self.most, types, turn)
        if self.context.has("parent_id"):
            children = follow_ups(parent, self.context.rows)
            linked = np.zeros(len(parent), np.bool_)
            linked[children] = True
            self.linked.append(linked)
            self.types.append(types)
            self.parents.append(parent[children])

    def merge(self, later: Turns) -> None:
        """Fold in the adjacent, later slice."""
        self.linked += later.linked
        self.types += later.types
        self.parents += later.parents
        self.most = np.maximum(self.most, later.most)

    def multi_turn(self) -> Ints | None:
        """int64[types + 1], requests with a parent or a child in the trace; None if not stated."""
        if not self.linked:
            return None
        flags = np.concatenate(self.linked)
        flags[np.concatenate(self.parents)] = True
        types = np.concatenate(self.types)
        slots = len(self.most)
        return np.bincount(types[flags] % slots, minlength=slots).astype(np.int64)

    def turns_max(self, scope: int) -> int | None:
        """Largest stated turn of scope 0 (all) or 1 + type; None if none is stated."""
        most = int(self.most.max() if scope == 0 else self.most[scope - 1])
        return most if most > 0 else None
