"""`window_rank`: users and models by requests inside the raster windows, from which rasters are picked."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope.kernels.cells import Cells, Store, count, has_room
from servescope.kernels.hashmap import EMPTY, slot_of, start_of
from servescope.kernels.jit import kernel
from servescope.kernels.prefetch import prefetch
from servescope.tables import table
from servescope.views.sketch import TIMES, Context, View, held, int32, int64
from servescope.views.windows import Window, window_us

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "user", "model")
KINDS = ("user", "model")
BOTH = 2  # of the pairs, after one for either kind
AHEAD = 512  # rows whose memory is asked for at once
USER_DAYS, MODEL_DAYS = 37.0, 61.0
DOC = (
    "Users (kind user) and models (kind model) by requests with both known inside the raster window of their "
    "kind: the last 37 and 61 days unless chosen. distinct: models of the user, user keys of the model. "
    "rank: from 1, ties in the order of the names."
)


def raster_windows(context: Context) -> tuple[Window, Window]:
    """The windows of users' and of models' rasters, in arrivals."""
    options = context.options
    return (
        window_us(context, options.raster_user_days, USER_DAYS, "raster_user_days"),
        window_us(context, options.raster_model_days, MODEL_DAYS, "raster_model_days"),
    )


@kernel
def _fold(pairs: Store, row: int, end: int, user: npt.NDArray[np.int32], model: npt.NDArray[np.int32]) -> int:
    """Count pairs of rows from `row` up to before `end` (modified); the row reached when full."""
    while row < end and has_room(pairs, AHEAD):
        stop = min(row + AHEAD, end)
        for i in range(row, stop):
            at = np.int64(start_of(pairs.keys, np.uint64(user[i]) << np.uint64(32) | np.uint64(model[i])))
            prefetch(pairs.keys, at)
            prefetch(pairs.counts, at)
        for i in range(row, stop):
            if user[i] >= 0 and model[i] >= 0:
                count(pairs, np.uint64(user[i]) << np.uint64(32) | np.uint64(model[i]), 1)
        row = stop
    return row


@kernel
def _total(
    pairs: Store, others: Store, shift: int, requests: npt.NDArray[np.int64], distinct: npt.NDArray[np.int64]
) -> None:
    """Add up pairs by the 32 bits of the key from `shift` on: requests, and pairs that are not in others.

    requests, distinct  modified
    """
    for slot in range(len(pairs.keys)):
        if pairs.counts[slot] != EMPTY:
            key = pairs.keys[slot]
            code = np.int64(key >> np.uint64(shift) & np.uint64(0xFFFFFFFF))
            requests[code] += pairs.counts[slot]
            distinct[code] += others.counts[slot_of(others.keys, others.counts, key)] == EMPTY


@dataclass
class WindowRank:
    """pairs: requests by user << 32 | model, in the users' window alone, the models' alone, and in both."""

    context: Context
    windows: tuple[Window, Window] = field(init=False)
    pairs: tuple[Cells, Cells, Cells] = field(default_factory=lambda: (Cells(), Cells(), Cells()))

    def __post_init__(self) -> None:
        self.windows = raster_windows(self.context)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        arrival, user, model = int64(batch, "arrival_us"), int32(batch, "user"), int32(batch, "model")
        spans = [np.searchsorted(arrival, window).tolist() for window in self.windows]
        for row, end in pairwise(sorted(spans[0] + spans[1])):
            inside = [low <= row and end <= high for low, high in spans]
            pairs = self.pairs[BOTH if all(inside) else inside.index(True)] if any(inside) else None
            while pairs and row < end:
                row = _fold(pairs.store, row, end, user, model)
                if row < end:
                    pairs.grow()

    def merge(self, later: WindowRank) -> None:
        """Fold in the adjacent, later slice."""
        for own, other in zip(self.pairs, later.pairs, strict=True):
            own.merge(other)

    def tables(self) -> list[Table]:
        """`window_rank`: users by rank, then models by rank."""
        ranked = [self._ranked(at) for at in range(2)]
        columns: dict[str, tuple[pa.DataType, Any]] = {
            "kind": (pa.string(), np.repeat(np.array(KINDS, object), [len(r[1]) for r in ranked])),
            "name": (pa.string(), pa.concat_arrays([names for names, _, _ in ranked])),
            "rank": (pa.int64(), np.concatenate([np.arange(1, len(r[1]) + 1) for r in ranked])),
            "requests": (pa.int64(), np.concatenate([r[1] for r in ranked])),
            "distinct": (pa.int64(), np.concatenate([r[2] for r in ranked])),
        }
        return [table("window_rank", columns, DOC)]

    def _ranked(self, kind: int) -> tuple[Any, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Names, requests and distinct others of the users (0) or models (1) in their window, by rank."""
        texts = self.context.strings(KINDS[kind])
        requests, distinct = np.zeros((2, len(texts)), np.int64)
        shift = 32 if kind == 0 else 0
        alone, both = (self.pairs[part].store for part in (kind, BOTH))
        _total(both, Cells().store, shift, requests, distinct)
        _total(alone, both, shift, requests, distinct)
        met = np.flatnonzero(requests)
        names = texts.take(pa.array(met))
        facts = pa.table({"requests": requests[met], "name": names})
        by = [("requests", "descending"), ("name", "ascending")]  # bytes of UTF-8 have the order of the texts
        places = pc.sort_indices(facts, sort_keys=by)
        order = met[places.to_numpy()]
        return names.take(places), requests[order], distinct[order]


VIEW = View("window_rank", COLUMNS, {"window_rank": (TIMES, "user", "model")}, WindowRank)
