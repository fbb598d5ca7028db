"""Azure LLM inference CSV: calendar times of seven digits without a zone, two token counts, CRLF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from servescope.exports import texts
from servescope.exports.rules import NO_PROMPT, ODD_OUTPUT, no_prompt, odd_output, source_ns
from servescope.exports.target import Export

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Trace

COLUMNS = ("arrival_us", "input_tokens", "output_tokens")
HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
IMAGES = "NumImages"  # of the multimodal trace of 2025; written where the trace counts images


def write(trace: Trace, path: Path) -> list[str]:
    """One line a request, in time order, UTC."""
    texts.clock_fits(trace)
    images = trace.has("image_count")
    columns = [*COLUMNS, "image_count"] if images else list(COLUMNS)
    first_ns = trace.meta.origin.first_ns
    with texts.open_output(path) as file:
        file.write(",".join([*HEADER, IMAGES] if images else HEADER).encode() + b"\r\n")
        for batch, table in texts.pieces(trace, columns):
            outputs = texts.without(table.column("output_tokens"), odd_output(batch, trace))
            fields = [
                texts.calendar_times(source_ns(batch, first_ns)),
                texts.plain(table.column("input_tokens")),
                pc.fill_null(outputs, ""),
            ]
            if images:
                fields.append(pc.fill_null(texts.plain(table.column("image_count")), ""))
            joined = pc.binary_join_element_wise(*fields, ",")
            lines = pc.binary_join_element_wise(joined, "\r\n", "")
            texts.write_texts(file, lines.filter(pa.array(~no_prompt(batch, trace))))
    return [
        "times are good to 1 µs after the first request's: a canonical trace keeps whole microseconds, so "
        "the seventh digit is that of the first request"
    ]


def _whole(trace: Trace) -> list[str]:
    if trace.meta.origin.kind == "calendar":
        return []
    return [f"that the clock is {trace.meta.origin.kind}: its times are written as of 1970"]


EXPORT = Export(
    "azure",
    "Azure LLM inference (CSV, calendar times)",
    frozenset((*COLUMNS, "image_count")),
    write,
    (NO_PROMPT, ODD_OUTPUT),
    _whole,
)
