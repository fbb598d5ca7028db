"""When blocks are used again, in plain Python: a block is the tuple of ids from the start of its prompt."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Node = tuple[int, ...]


def paths(prompts: Sequence[tuple[int, ...]]) -> list[list[Node]]:
    return [[prompt[: depth + 1] for depth in range(len(prompt))] for prompt in prompts]


def reuses(
    prompts: Sequence[tuple[int, ...]], times_us: Sequence[int], kinds: Sequence[int]
) -> list[tuple[int, int]]:
    """(category of the use before, µs since it) of every reuse."""
    last: dict[Node, tuple[int, int]] = {}
    found = []
    for nodes, now, kind in zip(paths(prompts), times_us, kinds, strict=True):
        for node in nodes:
            if node in last:
                found.append((last[node][1], now - last[node][0]))
            last[node] = now, kind
    return found


def lifespans(
    prompts: Sequence[tuple[int, ...]], times_us: Sequence[int], kinds: Sequence[int]
) -> list[tuple[int, int]]:
    """(category of the first use, µs from it to the last) of every block."""
    seen: dict[Node, tuple[int, int, int]] = {}
    for nodes, now, kind in zip(paths(prompts), times_us, kinds, strict=True):
        for node in nodes:
            first = seen.get(node, (kind, now, now))
            seen[node] = first[0], first[1], now
    return [(kind, last - first) for kind, first, last in seen.values()]


def uses(prompts: Sequence[tuple[int, ...]]) -> Counter[Node]:
    return Counter(node for nodes in paths(prompts) for node in nodes)


def runs(prompts: Sequence[tuple[int, ...]]) -> dict[Node, tuple[int, int, int]]:
    """Runs of blocks with the same uses: last block -> (blocks, uses, ways on)."""
    counted = uses(prompts)
    ways = Counter(node[:-1] for node in counted)
    found = {}
    for node, many in counted.items():
        if any(counted[other] == many for other in counted if other[:-1] == node):
            continue  # the run goes on
        start = node
        while start[:-1] and counted[start[:-1]] == many:
            start = start[:-1]
        found[node] = len(node) - len(start) + 1, many, ways[node]
    return found
