"""Counts along time, held from the first to the last period that a run of rows touches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

EMPTY = -(2**63)


@dataclass
class Timeline:
    """Counts of equal, adjacent periods.

    shape  shape of the counts of one period
    first  number of the first period, EMPTY before there is one
    end    periods held
    cells  int64[room, *shape], the first `end` of them in use
    """

    shape: tuple[int, ...]
    first: int = EMPTY
    end: int = 0
    cells: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.zeros((0, *self.shape), np.int64)

    @property
    def held(self) -> npt.NDArray[np.int64]:
        """The counts of the periods held: int64[end, *shape], a view."""
        return self.cells[: self.end]

    def reach(self, first: int, last: int) -> None:
        """Make the periods `first` to `last` exist; `first` is no earlier than the first one held."""
        if self.first == EMPTY:
            self.first = first
        self.end = max(self.end, last + 1 - self.first)
        missing = self.end - len(self.cells)
        if missing > 0:
            more = np.zeros((max(missing, len(self.cells)), *self.shape), np.int64)
            self.cells = np.concatenate([self.cells, more])

    def merge(self, later: Timeline) -> None:
        """Add the counts of a later stretch of time. Changes this one."""
        if later.first == EMPTY:
            return
        self.reach(later.first, later.first + later.end - 1)
        at = later.first - self.first
        self.cells[at : at + later.end] += later.held
