"""Policies as somebody might write them: right ones, and every way to be wrong."""

from __future__ import annotations

import itertools

COUNTER = itertools.count()


class Oldest:
    """FIFO, or with `newest=1` its opposite."""

    def __init__(self, capacity_tokens: int, newest: int = 0) -> None:
        self.capacity_tokens, self.newest = capacity_tokens, newest
        self.queue: list[int] = []

    def on_hit(self, object: int, size_tokens: int, time_us: int) -> None:
        assert object in self.queue and size_tokens >= 0 and time_us >= 0

    def on_insert(self, object: int, size_tokens: int, time_us: int) -> None:
        assert object not in self.queue and size_tokens <= self.capacity_tokens
        self.queue.append(object)

    def victim(self) -> object:
        return self.queue.pop(-1 if self.newest else 0)


class SaysNone(Oldest):
    def victim(self) -> object:
        return None


class SaysTrue(Oldest):
    def victim(self) -> object:
        return True


class Repeats(Oldest):
    """Names the same object again, though it has left."""

    def victim(self) -> object:
        return self.queue[0]


class Raises(Oldest):
    def on_hit(self, object: int, size_tokens: int, time_us: int) -> None:
        raise KeyError("nobody knows")


class Restless(Oldest):
    """Depends on what ran before, whatever the seed."""

    def victim(self) -> object:
        return self.queue.pop(next(COUNTER) % len(self.queue))


class NoVictim:
    def on_hit(self, object: int, size_tokens: int, time_us: int) -> None: ...

    def on_insert(self, object: int, size_tokens: int, time_us: int) -> None: ...


class WantsMore(Oldest):
    def __init__(self, friend: str) -> None:
        super().__init__(1)
        self.friend = friend


def not_numba(objects: int) -> tuple[int]:
    return (objects,)
