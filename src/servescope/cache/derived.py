"""What the prompts alone tell: which blocks were there before, and which request continues which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.sessions.block_rule import SHARED_BY, link_rows

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

    Ints = npt.NDArray[np.int64]


@kernel
def seen_before(prompts: Prompts) -> tuple[Ints, Ints]:
    """Nodes of the tree before each request, and its leading blocks among them: int64[n] each.

    The second are the hits of an unlimited cache.
    """
    requests = len(prompts.tails)
    before, found = np.zeros(requests, np.int64), np.zeros(requests, np.int64)
    used = 0
    for request in range(requests):
        low, high = prompts.offsets[request], prompts.offsets[request + 1]
        before[request] = used
        place = low
        while place < high and prompts.nodes[place] < used:
            place += 1
        found[request] = place - low
        if high > low:  # nodes are numbered as they arise, so the deepest is the youngest of its prompt
            used = max(used, prompts.nodes[high - 1] + 1)
    return before, found


def derived_sessions(prompts: Prompts) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Parent requests int64[n] (-1: none) and turns int32[n], by the rule `blocks` of sessions."""
    requests = len(prompts.tails)
    before, found = seen_before(prompts)
    held = np.zeros(prompts.known, np.uint8)
    starts, session, prefix = (np.zeros(requests, np.int64) for _ in range(3))
    parent = np.full(requests, -1, np.int64)
    turns, candidates = np.zeros(requests, np.int32), np.zeros(requests, np.int32)
    link_rows(
        0, prompts.offsets, np.ones(requests, np.bool_), found, before, prompts.nodes.astype(np.int64),
        SHARED_BY, held, starts, session, parent, turns, prefix, candidates,
    )  # fmt: skip
    return parent, turns
