"""Prefix reuse in plain Python: sets of whole prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Prefixes:
    """All prefixes and all ids that were inserted, by scope."""

    def __init__(self) -> None:
        self.prefixes: set[tuple[Hashable, ...]] = set()
        self.ids: set[tuple[Hashable, int]] = set()

    def insert(self, scope: Hashable, blocks: Sequence[int]) -> tuple[int, int]:
        """Leading blocks that were there, and blocks whose id was there anywhere; then insert."""
        own = [(scope, *blocks[: i + 1]) for i in range(len(blocks))]
        leading = 0
        while leading < len(own) and own[leading] in self.prefixes:
            leading += 1
        anywhere = sum((scope, block) in self.ids for block in blocks)
        self.prefixes.update(own)
        self.ids.update((scope, block) for block in blocks)
        return leading, anywhere


def shared(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Equal items from the start."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
