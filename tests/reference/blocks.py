"""Block reuse with an unlimited cache in plain Python, from rows as dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.reference.prefix import Prefixes, shared

Row = dict[str, Any]


class Reuse:
    """What each request found, by scope: the trace (*), its type, its session."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.found: dict[int, dict[str, tuple[int, int]]] = {}
        trees: dict[Any, Prefixes] = defaultdict(Prefixes)
        for row in rows:
            if row["block_ids"] is None:
                continue
            scopes = {"*": "*", "type": ("type", row["request_type"])}
            if row["session_id"] is not None:
                scopes["session"] = ("session", row["session_id"])
            self.found[row["request_id"]] = {
                name: trees[key].insert(row["cache_scope"], row["block_ids"]) for name, key in scopes.items()
            }

    def members(self, scope: str) -> list[Row]:
        """Rows with blocks of a scope."""
        held = [row for row in self.rows if row["block_ids"] is not None]
        return held if scope == "*" else [row for row in held if row["request_type"] == scope]

    def block_reuse(self, scope: str) -> tuple[int, ...]:
        """references, seen, prefix, follow-ups, their blocks, blocks shared with parents."""
        name = "*" if scope == "*" else "type"
        own = self.members(scope)
        by_id = {row["request_id"]: row for row in self.rows}
        pairs = [(row, by_id[row["parent_id"]]) for row in own if row["parent_id"] is not None]
        pairs = [(child, parent) for child, parent in pairs if parent["block_ids"] is not None]
        return (
            sum(len(row["block_ids"]) for row in own),
            sum(self.found[row["request_id"]][name][1] for row in own),
            sum(self.found[row["request_id"]][name][0] for row in own),
            len(pairs),
            sum(len(child["block_ids"]) for child, _ in pairs),
            sum(
                shared(child["block_ids"], parent["block_ids"])
                for child, parent in pairs
                if child["cache_scope"] == parent["cache_scope"]
            ),
        )

    def ceiling(self, first: int, size: int) -> tuple[int, ...]:
        """requests, references, prefix, input, prefix tokens, same-session blocks and tokens."""
        own = [row for row in self.members("*") if row["request_id"] >= first]
        sums = Counter[int]()
        for row in own:
            tokens = row["input_tokens"] or 0
            prefix = self.found[row["request_id"]]["*"][0]
            session = self.found[row["request_id"]].get("session", (0, 0))[0]
            values = (len(row["block_ids"]), prefix, tokens, min(prefix * size, tokens), session)
            sums.update(dict(enumerate([1, *values, min(session * size, tokens)])))
        return tuple(sums[at] for at in range(7))

    def positions(self, scope: str) -> dict[tuple[int, int], tuple[int, ...]]:
        """(low, high) of the block index -> references, seen, prefix."""
        name = "*" if scope == "*" else "type"
        cells: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        before: set[Any] = set()
        for row in self.members(scope):
            ids = {(row["cache_scope"], block) for block in row["block_ids"]}
            for at, block in enumerate(row["block_ids"]):
                low = 1 << (at.bit_length() - 1) if at else 0
                cell = cells[low, (1 << at.bit_length()) - 1]
                cell[0] += 1
                cell[1] += (row["cache_scope"], block) in before
                cell[2] += at < self.found[row["request_id"]][name][0]
            before |= ids
        return {key: tuple(cell) for key, cell in sorted(cells.items())}
