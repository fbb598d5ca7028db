"""Caches of whole objects in plain Python: lists, dicts and the rules as they are written down."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Asked = tuple[int, int, int]  # object, tokens, microseconds


class Draws:
    """SplitMix64, scaled to a range by its upper 32 bits."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, count: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        word = self.state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
        return ((word ^ (word >> 31)) >> 32) * count >> 32


def random_hits(asked: Sequence[Asked], capacity: int, seed: int) -> list[bool]:
    """Random eviction; the order of `held` is that of a list whose last takes the place of who leaves."""
    draws, sizes, held, hits = Draws(seed), {}, [], []

    def make_room(incoming: int) -> None:
        while sum(sizes.values()) + incoming > capacity:
            place = draws.below(len(held))
            del sizes[held[place]]
            held[place] = held[-1]
            held.pop()

    for item, size, _ in asked:
        hits.append(item in sizes)
        if item in sizes:
            sizes[item] = size
            make_room(0)
        elif size <= capacity:
            make_room(size)
            sizes[item] = size
            held.append(item)
    return hits


def ttl_hits(asked: Sequence[Asked], capacity: int, ttl_us: int) -> tuple[list[bool], int]:
    """LRU whose objects leave after `ttl_us` without an access: hits, evictions."""
    held: dict[int, tuple[int, int]] = {}  # object -> tokens, last access; oldest first
    hits, evictions = [], 0
    for item, size, now in asked:
        expired = [key for key, (_, used) in held.items() if now - used > ttl_us]
        for key in expired:
            del held[key]
        hits.append(item in held)
        if item in held or size <= capacity:
            held.pop(item, None)
            held[item] = (size, now)
        while sum(tokens for tokens, _ in held.values()) > capacity:
            del held[next(iter(held))]
            evictions += 1
        evictions += len(expired)
    return hits, evictions


def belady_hits(asked: Sequence[Asked], capacity: int) -> list[bool]:
    """The greatest size x distance goes, by a full scan; the newcomer is in it."""
    nexts = next_accesses([item for item, _, _ in asked])
    held: dict[int, tuple[int, float]] = {}  # object -> tokens, next access
    hits = []
    for number, (item, size, _) in enumerate(asked):
        hits.append(item in held)
        if item in held or size <= capacity:
            held[item] = (size, nexts[number])
        if nexts[number] == inf:
            held.pop(item, None)
        while sum(tokens for tokens, _ in held.values()) > capacity:
            worth = {key: (tokens * (end - number), tokens, end) for key, (tokens, end) in held.items()}
            del held[max(worth, key=worth.__getitem__)]
    return hits


def next_accesses(objects: Sequence[int]) -> list[float]:
    """Number of the next access of the same object, inf for none."""
    return [
        next((later for later in range(number + 1, len(objects)) if objects[later] == item), inf)
        for number, item in enumerate(objects)
    ]


def best_hits(asked: Sequence[Asked], capacity: int, worth: Callable[[int], int], first: int = 0) -> int:
    """The most that any cache can get, by trying every set of residents after every access.

    worth  what a hit of a request is worth
    first  hits of requests before this one are worth nothing
    """
    reached: dict[frozenset[int], int] = {frozenset(): 0}
    sizes: dict[int, int] = {}
    for number, (item, size, _) in enumerate(asked):
        sizes[item] = size
        after: dict[frozenset[int], int] = {}
        for held, value in reached.items():
            if item in held and number >= first:
                value += worth(number)
            may_stay = sorted(held | {item})
            for kept in product((False, True), repeat=len(may_stay)):
                chosen = frozenset(key for key, keep in zip(may_stay, kept, strict=True) if keep)
                if sum(sizes[key] for key in chosen) <= capacity:
                    after[chosen] = max(after.get(chosen, 0), value)
        reached = after
    return max(reached.values())
