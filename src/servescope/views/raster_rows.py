"""`raster_rows`: requests of picked users and models, by a second, filtered read of the raster windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope.errors import UsageError, unknown_name
from servescope.tables import coded_texts
from servescope.views.clock import DAY_US
from servescope.views.prologue import prologue
from servescope.views.sketch import Context, int32, int64
from servescope.views.window_rank import KINDS, VIEW, raster_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servescope.result import Table
    from servescope.trace import Batch, Trace
    from servescope.views.sketch import ViewOptions
    from servescope.views.windows import Window

NAME = "raster_rows"
SHOWN_US = 31 * DAY_US
MOST_USERS = 800
SEED = 20260504
NOBODY = -1
SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "rank": pa.int64(),
        "user": pa.string(),
        "model": pa.string(),
        "started_us": pa.int64(),
        "day": pa.float64(),
        "index": pa.int64(),
    }
)
DOC = (
    "Requests of picked users and models in the first 31 days after their first request inside the raster "
    "window. index: number of the model (of a user) or of the user (of a model) in the order of first "
    "requests, ties by name; of a model's users at most 800, drawn at random with seed 20260504 + rank. "
    "day: days since that first request. started_us: on the trace clock."
)


@dataclass
class Pick:
    """A user or model whose requests are written.

    kind    0 user, 1 model
    rank    in `window_rank`; code: of the user or model
    window  arrivals inside it count
    first   int64[codes of the other kind], first arrival of the pair in the window, NOBODY for none
    index   int64[codes of the other kind], number of each, NOBODY for those left out
    """

    kind: int
    rank: int
    code: int
    window: Window
    first: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]

    def rows_of(self, batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Numbers of the rows that belong to the pick, and the others' codes in them."""
        low, high = np.searchsorted(int64(batch, "arrival_us"), self.window)
        own = int32(batch, KINDS[self.kind])[low:high]
        other = int32(batch, KINDS[1 - self.kind])[low:high]
        at = np.flatnonzero((own == self.code) & (other >= 0))
        return at + low, other[at]

    def meet(self, batch: Batch) -> None:
        """Note first arrivals. Changes the pick."""
        numbers, others = self.rows_of(batch)
        codes, places = np.unique(others, return_index=True)  # the first of each: rows are in time order
        new = self.first[codes] == NOBODY
        self.first[codes[new]] = int64(batch, "arrival_us")[numbers[places[new]]]

    def number(self, texts: Sequence[str]) -> None:
        """Number the others by first arrival, then name. Changes the pick."""
        met = np.flatnonzero(self.first != NOBODY).tolist()
        met.sort(key=lambda code: (self.first[code], texts[code]))
        if self.kind == 1 and len(met) > MOST_USERS:
            drawn = np.random.default_rng(SEED + self.rank).permutation(len(met))[:MOST_USERS]
            met = [met[at] for at in np.sort(drawn).tolist()]
        self.index[met] = np.arange(len(met))

    def rows(self, context: Context, batch: Batch) -> pa.Table:
        """The rows to write of a batch."""
        numbers, others = self.rows_of(batch)
        arrival = int64(batch, "arrival_us")[numbers]
        start = int(self.first[self.first != NOBODY].min())
        keep = (self.index[others] != NOBODY) & (arrival < start + SHOWN_US)
        arrival, others = arrival[keep], others[keep]
        codes = (np.full(len(others), self.code), others)
        user, model = codes if self.kind == 0 else codes[::-1]
        columns: dict[str, Any] = {
            "kind": pa.array([KINDS[self.kind]] * len(others), pa.string()),
            "rank": np.full(len(others), self.rank),
            "user": coded_texts(user, context.texts["user"])[1].cast(pa.string()),
            "model": coded_texts(model, context.texts["model"])[1].cast(pa.string()),
            "started_us": arrival + context.meta.origin.clock_us,
            "day": (arrival - start) / DAY_US,
            "index": self.index[others],
        }
        return pa.table(columns, schema=SCHEMA)


def write_raster_rows(trace: Trace, tables: Sequence[Table], options: ViewOptions, folder: Path) -> list[str]:
    """Write `raster_rows.parquet` into a folder, as the tables there are written; notes for the reader.

    tables  of this trace and these options; without `window_rank` nothing is written

    A picked model without requests in the window is left out with a note: the scan is done. Raises
    UsageError for a rank below 1.
    """
    ranks = next((table for table in tables if table.name == VIEW.name), None)
    if ranks is None:
        return [f"{NAME} is not written: it needs the table {VIEW.name}"]
    met = {row["name"] for row in ranks.rows() if row["kind"] == KINDS[1]}
    absent = [model for model in options.raster_models if model not in met]
    if absent:
        known = tuple(model for model in options.raster_models if model in met)
        options = replace(options, raster_models=known, raster_model_ranks=())
    folder.mkdir(parents=True, exist_ok=True)
    schema = SCHEMA.with_metadata({b"doc": DOC.encode()})
    with pq.ParquetWriter(folder / f"{NAME}.parquet", schema, compression="zstd") as writer:
        for rows in raster_rows(trace, ranks, options):
            if rows.num_rows:
                writer.write_table(rows.cast(schema))
    return [f"{NAME}: {model} has no requests in the raster window" for model in absent]


def raster_rows(trace: Trace, ranks: Table, options: ViewOptions) -> Iterator[pa.Table]:
    """Rows of the picks of `options`, by pick of either kind within a part, parts in time order.

    ranks  the table `window_rank` of this trace and these options

    Reads arrival, user and model of the parts inside the windows twice: first requests, then rows.
    Raises UsageError for a picked model that has no requests in the window, or a rank below 1.
    """
    context = prologue(trace, [VIEW], options)
    picks = _picks(context, ranks)
    for batch in _batches(trace, picks):
        for pick in picks:
            pick.meet(batch)
    for pick in picks:
        pick.number(context.texts[KINDS[1 - pick.kind]])
    for batch in _batches(trace, picks):
        for pick in picks:
            yield pick.rows(context, batch)


def _picks(context: Context, ranks: Table) -> list[Pick]:
    windows, options = raster_windows(context), context.options
    wanted = [(0, rank) for rank in options.raster_user_ranks]
    if options.raster_models:
        wanted += [(1, _rank_of(ranks, model)) for model in options.raster_models]
    else:
        wanted += [(1, rank) for rank in options.raster_model_ranks]
    if any(rank < 1 for _, rank in wanted):
        raise UsageError("a rank of a raster counts from 1.")
    data = ranks.data
    names = {
        (kind, rank): name
        for kind, rank, name in zip(*(data[c].to_pylist() for c in ("kind", "rank", "name")), strict=True)
    }
    picks = []
    for kind, rank in dict.fromkeys(wanted):
        name = names.get((KINDS[kind], rank))
        if name is not None:
            code = context.texts[KINDS[kind]].index(name)
            others = len(context.texts[KINDS[1 - kind]])
            first, index = np.full((2, others), NOBODY, np.int64)
            picks.append(Pick(kind, rank, code, windows[kind], first, index))
    return picks


def _rank_of(ranks: Table, model: str) -> int:
    found = {row["name"]: row["rank"] for row in ranks.rows() if row["kind"] == KINDS[1]}
    if model not in found:
        raise unknown_name("model in the raster window", model, found)
    return int(found[model])


def _batches(trace: Trace, picks: Sequence[Pick]) -> Iterator[Batch]:
    """Batches of the parts that may hold rows of a window."""
    if not picks:
        return
    first, last = min(pick.window[0] for pick in picks), max(pick.window[1] for pick in picks)
    parts = [index for index, part in enumerate(trace.parts) if part.rows]
    low, high = _parts_before(trace, parts, first), _parts_before(trace, parts, last)
    for index in parts[max(low - 1, 0) : high]:
        yield from trace.batches(["arrival_us", "user", "model"], first=index, last=index + 1)


def _parts_before(trace: Trace, parts: Sequence[int], arrival_us: int) -> int:
    """How many of the parts begin before an arrival, by halving."""
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high) // 2
        (batch,) = trace.batches(["arrival_us"], first=parts[middle], last=parts[middle] + 1)
        if int64(batch, "arrival_us")[0] < arrival_us:
            low = middle + 1
        else:
            high = middle
    return low
