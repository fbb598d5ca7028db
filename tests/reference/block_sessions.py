"""Sessions from block ids in plain Python: a dict from each prefix to who sent it, how often."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def link(rows: list[Row], shared_by: int, block_tokens: int) -> list[tuple[int, int, int, int, int]]:
    """session, parent, turn, prefix_tokens, candidates of each row; rows without blocks take no part."""
    first: dict[tuple[Any, ...], int] = {}
    holders: dict[tuple[Any, ...], int] = {}
    found: list[tuple[int, int, int, int, int]] = []
    for at, row in enumerate(rows):
        if row["block_ids"] is None:
            found.append((-1, -1, 0, 0, 0))
            continue
        prefixes = [
            (row["cache_scope"], *row["block_ids"][:end]) for end in range(1, len(row["block_ids"]) + 1)
        ]
        known = [prefix for prefix in prefixes if prefix in first]
        session, parent, turn, tokens, candidates = at, -1, 1, 0, 0
        if known and holders[known[-1]] < shared_by:
            parent, candidates = first[known[-1]], holders[known[-1]]
            session, turn = found[parent][0], found[parent][2] + 1
            tokens = len(known) * block_tokens
            if row["input_tokens"] is not None:
                tokens = min(tokens, row["input_tokens"])
        found.append((session, parent, turn, tokens, candidates))
        for prefix in prefixes:
            first.setdefault(prefix, at)
            holders[prefix] = holders.get(prefix, 0) + 1
    return found
