"""Categories of requests: type and turn, as the workload-aware policy tells them apart (kv-reuse, A.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import PromptTrace

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
        turns, source = found.derived[1].astype(np.int64), "block ids"
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
