"""Mooncake FAST'25 JSON lines: `timestamp` in whole milliseconds, lengths, `hash_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from servescope.exports import texts
from servescope.exports.rules import (
    NO_PROMPT,
    ODD_OUTPUT,
    block_size,
    no_prompt,
    odd_output,
    relative_clock,
    relative_start_ns,
    source_ns,
)
from servescope.exports.target import Export, Loss, Mask

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Batch, Trace

BLOCK_TOKENS = 512
NS_PER_MS = 1_000_000
COLUMNS = ("arrival_us", "input_tokens", "output_tokens", "block_ids")


def _between_ms(batch: Batch, trace: Trace) -> Mask:
    return np.asarray(source_ns(batch, relative_start_ns(trace)) % NS_PER_MS != 0)


def _whole(trace: Trace) -> list[str]:
    return [*relative_clock(trace), *block_size(trace, BLOCK_TOKENS)]


def write(trace: Trace, path: Path) -> list[str]:
    """One line a request, in time order; times are rounded half up to milliseconds."""
    texts.clock_fits(trace)
    start = relative_start_ns(trace)
    with texts.open_output(path) as file:
        for batch, table in texts.pieces(trace, COLUMNS):
            times = (source_ns(batch, start) + NS_PER_MS // 2) // NS_PER_MS
            fields = [
                ("timestamp", pa.array(times).cast(pa.string())),
                ("input_length", texts.plain(table.column("input_tokens"))),
                ("output_length", texts.without(table.column("output_tokens"), odd_output(batch, trace))),
                ("hash_ids", texts.block_lists(table.column("block_ids"))),
            ]
            texts.write_texts(file, texts.json_rows(fields).filter(pa.array(~no_prompt(batch, trace))))
    return []


BETWEEN_MS = Loss(
    ("arrival_us",),
    _between_ms,
    "{n} arrival time that is no whole millisecond (it is rounded)",
    "{n} arrival times that are no whole milliseconds (they are rounded)",
)
EXPORT = Export(
    "mooncake",
    "Mooncake FAST'25 (JSON lines, milliseconds, 512-token blocks)",
    frozenset(COLUMNS),
    write,
    (BETWEEN_MS, NO_PROMPT, ODD_OUTPUT),
    _whole,
)
