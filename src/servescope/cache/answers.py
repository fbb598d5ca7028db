"""What running requests hold, and what their answers leave behind in a cache of prefix blocks.

A trace shows the blocks of an answer only when they come back in a later prompt (kv-reuse, A.5). So the
answer of a request is read off its first follow-up: the whole blocks by which that prompt extends its own,
as far as prompt and answer reach together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError
from servescope.kernels.jit import kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts, PromptTrace


def with_running(found: PromptTrace, *, stand_in_s: float | None = None) -> tuple[Prompts, list[str]]:
    """Prompts that hold their blocks while they run, and notes on how long that is.

    stand_in_s  seconds that a request runs where the trace does not say; None: it lets go at once

    Raises UsageError for a negative stand-in.
    """
    if stand_in_s is not None and not stand_in_s >= 0:
        raise UsageError(f"the stand-in for durations is {stand_in_s} s; give seconds of at least 0.")
    prompts = found.prompts
    arrival = prompts.arrival_us
    ends = arrival + round((stand_in_s or 0) * 1e6)
    known = np.zeros(len(arrival), np.bool_)
    if "completed_us" in found.columns:
        completed = found.columns["completed_us"].astype(np.int64)
        known = completed >= arrival
        ends = np.where(known, completed, ends)
    order = np.lexsort((np.arange(len(ends)), ends)).astype(np.int32)
    missing = len(known) - int(known.sum())
    notes = []
    if missing:
        stand_in = (
            "let go at once" if not stand_in_s else f"hold their blocks for {stand_in_s:g} s, a stand-in"
        )
        notes.append(
            f"{missing:,} of {len(known):,} requests state no end after their arrival: they {stand_in}, and "
            "capacities that running requests would take are overstated"
        )
    return prompts._replace(ends_us=ends, ending=order), notes


def with_answers(found: PromptTrace, prompts: Prompts) -> Prompts:
    """Prompts with the blocks that their answers leave behind.

    The first follow-up is the first request that states this one as its parent; where no parents are
    stated, the first by the rule `blocks` of session reconstruction.
    """
    if "parent_id" in found.columns:
        parents = found.stated_parents
    else:
        parents = found.derived[0]
    first = np.full(len(parents), -1, np.int64)
    children = np.flatnonzero(parents >= 0)
    first[parents[children[::-1]]] = children[::-1]  # the first child is written last
    counts = _answer_blocks(prompts, first)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    starts = prompts.offsets[np.maximum(first, 0)] + _full_blocks(prompts)
    places = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    return prompts._replace(answer_offsets=offsets, answer_nodes=prompts.nodes[places])


def _full_blocks(prompts: Prompts) -> npt.NDArray[np.int64]:
    lengths = np.diff(prompts.offsets)
    return lengths - (prompts.tails < prompts.block_tokens)


@kernel
def _answer_blocks(prompts: Prompts, first: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[n]: whole blocks that the first follow-up has beyond the whole blocks of this prompt."""
    counts = np.zeros(len(first), np.int64)
    for request in range(len(first)):
        child = first[request]
        low, high = prompts.offsets[request], prompts.offsets[request + 1]
        if child < 0 or high == low:
            continue
        partial = prompts.tails[request] < prompts.block_tokens
        full = high - low - partial
        below, above = prompts.offsets[child], prompts.offsets[child + 1]
        whole = above - below - (prompts.tails[child] < prompts.block_tokens)
        if full > 0 and (whole < full or prompts.nodes[below + full - 1] != prompts.nodes[low + full - 1]):
            continue
        tokens = (high - low - 1) * prompts.block_tokens + prompts.tails[request] + prompts.outputs[request]
        counts[request] = max(0, min(whole, tokens // prompts.block_tokens) - full)
    return counts
