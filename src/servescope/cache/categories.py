"""Categories of requests: type and turn, as the workload-aware policy tells them apart (kv-reuse, A.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.sessions.block_rule import SHARED_BY, link_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import Prompts, PromptTrace

MOST_TURNS = 4  # later turns are one category (kv-reuse, A.6)


class Categories(NamedTuple):
    """Categories in use.

    codes   int32[n], by request
    names   text of each code, such as `file_2` or `4+`
    source  "stated" or "block ids": where the turns come from
    """

    codes: npt.NDArray[np.int32]
    names: list[str]
    source: str


def categories_of(found: PromptTrace, types: Sequence[str], *, most_turns: int = MOST_TURNS) -> Categories:
    """Request type x turn; turns from the ids where the trace states none, types left out likewise.

    types       texts of the codes in `found.columns["request_type"]`
    most_turns  this and later turns are one category
    """
    stated = found.columns.get("turn")
    numbers = None if stated is None else stated.astype(np.int64)
    if numbers is not None and bool((numbers > 0).all()):
        turns, source = numbers, "stated"
    else:
        turns, source = derived_turns(found.prompts).astype(np.int64), "block ids"
    turns = np.minimum(turns, most_turns)
    kinds = found.columns.get("request_type", np.full(len(turns), -1)).astype(np.int64)
    pairs, codes = np.unique(np.stack([kinds, turns], axis=1), axis=0, return_inverse=True)
    texts = [*types, "untyped"]  # code -1 finds the last one
    names = [
        ("" if "request_type" not in found.columns else f"{texts[kind]}_")
        + (f"{turn}+" if turn == most_turns else f"{turn}")
        for kind, turn in pairs.tolist()
    ]
    return Categories(codes.ravel().astype(np.int32), names, source)


def derived_turns(prompts: Prompts, *, shared_by: int = SHARED_BY) -> npt.NDArray[np.int32]:
    """int32[n]: turns by the rule `blocks` of session reconstruction, from the ids alone."""
    return derived_sessions(prompts, shared_by=shared_by)[1]


def derived_sessions(
    prompts: Prompts, *, shared_by: int = SHARED_BY
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Parent requests int64[n] (-1: none) and turns int32[n] by that rule."""
    requests = len(prompts.tails)
    nodes = prompts.nodes.astype(np.int64)
    before, found = _before(prompts.offsets, nodes)
    held = np.zeros(prompts.known, np.uint8)
    starts, session, prefix = (np.zeros(requests, np.int64) for _ in range(3))
    parent = np.full(requests, -1, np.int64)
    turns, candidates = np.zeros(requests, np.int32), np.zeros(requests, np.int32)
    link_rows(
        0, prompts.offsets, np.ones(requests, np.bool_), found, before, nodes, shared_by, held, starts,
        session, parent, turns, prefix, candidates,
    )  # fmt: skip
    return parent, turns


def _before(
    offsets: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Nodes before each request, int64[n], and its leading blocks that were there, int64[n]."""
    lengths = np.diff(offsets)
    last = np.full(len(lengths), -1, np.int64)
    last[lengths > 0] = nodes[offsets[1:][lengths > 0] - 1]  # the deepest is the youngest of its prompt
    before = np.concatenate([[0], np.maximum.accumulate(np.concatenate([[-1], last]))[1:-1] + 1])
    known = nodes < np.repeat(before, lengths)
    sums = np.concatenate([[0], np.cumsum(known)])
    return before.astype(np.int64), sums[offsets[1:]] - sums[offsets[:-1]]
