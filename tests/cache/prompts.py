"""Random small prompts: shared prefixes, empty ones, repeated ids, ids that are not chained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from servescope.cache.prompts import Prompts, prompts_of
from tests.traces import build

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_TOKENS = 16
PROMPTS = st.lists(st.lists(st.integers(0, 3), max_size=5).map(tuple), min_size=1, max_size=14)


def lay(prompts: Sequence[tuple[int, ...]], inputs: Sequence[int] | None = None) -> Prompts:
    """Prompts of a trace with one request a second."""
    columns = {
        "arrival_us": [number * 1_000_000 for number in range(len(prompts))],
        "block_ids": [list(prompt) for prompt in prompts],
    }
    if inputs is not None:
        columns["input_tokens"] = list(inputs)
    return prompts_of(build(columns, block_tokens=BLOCK_TOKENS)).prompts


def hits_of(
    module: object, prompts: Prompts, capacity: int, **parameters: object
) -> tuple[list[int], object]:
    """Hits by request and the state after, run in two pieces: a state goes on from where it was left."""
    state = module.new(prompts, capacity, 0, **parameters)  # type: ignore[attr-defined]
    hits = np.zeros(len(prompts.tails), np.int32)
    middle = len(hits) // 2
    module.run(state, prompts, hits, 0, middle)  # type: ignore[attr-defined]
    module.run(state, prompts, hits, middle, len(hits))  # type: ignore[attr-defined]
    return hits.tolist(), state
