"""Somebody's own cache policy in plain Python: `servescope check-policy examples/my_policy.py:LRU2`.

The same name goes where a policy goes: `servescope cache TRACE --unit session --policy
lru,examples/my_policy.py:LRU2`.
"""

from __future__ import annotations

import math


class LRU2:
    """LRU-2: the object whose second-last access is longest ago goes; objects seen once go first.

    O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm", SIGMOD 1993.
    """

    def __init__(self) -> None:
        self.accesses = 0
        self.times: dict[int, tuple[float, int]] = {}  # object -> its second-last and its last access

    def on_hit(self, object: int, size_tokens: int, time_us: int) -> None:
        """The object was resident and is accessed again."""
        self.accesses += 1
        self.times[object] = (self.times[object][1], self.accesses)

    def on_insert(self, object: int, size_tokens: int, time_us: int) -> None:
        """The object was not resident and is now."""
        self.accesses += 1
        self.times[object] = (-math.inf, self.accesses)

    def victim(self) -> int:
        """Who leaves; called until there is room."""
        oldest = min(self.times, key=self.times.__getitem__)
        del self.times[oldest]
        return oldest
