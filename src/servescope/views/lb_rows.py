"""`lb_rows`: the rows behind the balance views, written to Parquet while they are scanned."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope import schema
from servescope.tables import coded_texts
from servescope.views.sketch import Context, float64, int32, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.trace import Batch

FOLDER = "lb_rows"
CODES = ("model", "user", "instance")
TOKENS = {"it": "input_tokens", "ot": "output_tokens", "ct": "cached_tokens"}


def rows_table(
    context: Context, batch: Batch, numbers: npt.NDArray[np.int64], held: dict[str, Sequence[str]]
) -> pa.Table:
    """Rows of a batch, by their numbers in it: request, start on the trace clock, codes, tokens, latency.

    held  texts by code of each category as far as they were asked for; changed where there are more
    """
    arrival, completed = int64(batch, "arrival_us")[numbers], int64(batch, "completed_us")[numbers]
    never = completed == schema.NULL_INT64
    ttft = float64(batch, "ttft_s")[numbers]
    columns: dict[str, Any] = {
        "request_id": pa.array(batch.start + numbers),
        "started_us": pa.array(arrival + context.meta.origin.clock_us),
        "duration_s": pa.array((np.where(never, arrival, completed) - arrival) / 1e6, mask=never),
    }
    for name in CODES:
        codes = int32(batch, name)[numbers]
        if int(codes.max(initial=-1)) >= len(held.get(name, ())):
            held[name] = context.so_far(name)
        _, texts = coded_texts(codes, held.get(name, ()))
        columns[name] = texts.cast(pa.string())
    for name, column in TOKENS.items():
        values = int32(batch, column)[numbers]
        columns[name] = pa.array(values, mask=values == schema.NULL_INT32)
    columns["ttft_s"] = pa.array(ttft, mask=np.isnan(ttft))
    return pa.table(columns)


@dataclass
class LbRows:
    """Writes `ROWS/lb_rows/REQUEST.parquet`, one file for each slice that has rows, named by the first.

    The files in order of their names are the rows in time order. texts: see `rows_table`.
    """

    context: Context
    writer: pq.ParquetWriter | None = None
    texts: dict[str, Sequence[str]] = field(default_factory=dict)

    def write(self, batch: Batch, numbers: npt.NDArray[np.int64]) -> None:
        """Write rows of a batch, by their numbers in it."""
        if not len(numbers):
            return
        made = rows_table(self.context, batch, numbers, self.texts)
        if self.writer is None:
            folder = Path(self.context.options.rows) / FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{batch.start + int(numbers[0]):014d}.parquet"
            self.writer = pq.ParquetWriter(path, made.schema, compression="zstd")
        self.writer.write_table(made)

    def close(self) -> None:
        """End the file. No further rows."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: the file must be whole before."""
        self.close()
        return {"context": self.context, "writer": None, "texts": {}}
