"""Losses that several formats share: unusable lengths, clocks, block sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope.exports.target import Loss, Mask, unusable

if TYPE_CHECKING:
    import numpy.typing as npt

    from servescope.trace import Batch, Trace


def relative_start_ns(trace: Trace) -> int:
    """Where a written relative clock begins: where that of a relative source did, else 0."""
    return trace.meta.origin.first_ns if trace.meta.origin.kind == "relative" else 0


def source_ns(batch: Batch, first_ns: int) -> npt.NDArray[np.int64]:
    """Arrivals on the source's own clock, int64[n] nanoseconds. The caller knows that they fit."""
    return np.asarray(batch["arrival_us"].astype(np.int64) * 1_000 + first_ns)


def relative_clock(trace: Trace) -> list[str]:
    """What a format with relative times loses of the trace's clock."""
    kind = trace.meta.origin.kind
    if kind in ("calendar", "nominal"):
        return [f"the {kind} clock: times are written from 0"]
    return ["that the source has no arrival times: all are 0"] if kind == "none" else []


def block_size(trace: Trace, assumed: int) -> list[str]:
    """The block size, where it is not the one that readers of the format assume."""
    size = trace.meta.block_tokens
    if size in (None, assumed):
        return []
    return [
        f"the block size of {size} tokens (readers assume {assumed}; read it back with --block-tokens {size})"
    ]


def no_prompt(batch: Batch, trace: Trace) -> Mask:
    """Rows without a usable prompt length; they are left out."""
    return unusable(batch, "input_tokens", 1)


def odd_output(batch: Batch, trace: Trace) -> Mask:
    """Rows whose output is unknown or negative; it is not written."""
    return unusable(batch, "output_tokens", 0)


NO_PROMPT = Loss(
    ("input_tokens",),
    no_prompt,
    "{n} request with unknown or no input tokens (it is left out)",
    "{n} requests with unknown or no input tokens (they are left out)",
    drops=True,
)
ODD_OUTPUT = Loss(
    ("output_tokens",),
    odd_output,
    "{n} unknown or negative output (it is left empty)",
    "{n} unknown or negative outputs (they are left empty)",
)
