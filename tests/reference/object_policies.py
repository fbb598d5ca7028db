"""Caches of whole sessions in plain Python: dicts and lists, one object at a time."""

from __future__ import annotations


class Cache:
    """FIFO, and what all policies share: on a hit set the size, note the hit, then evict until it fits.

    sizes  tokens of every resident object
    queue  resident objects, the next victim first
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.sizes: dict[int, int] = {}
        self.queue: list[int] = []
        self.evictions = self.peak = 0

    @property
    def used(self) -> int:
        return sum(self.sizes.values())

    def access(self, item: int, size: int) -> bool:
        hit = item in self.sizes
        if hit:
            self.sizes[item] = size
            self.note_hit(item)
            self.make_room(0)
        elif self.admits(item, size):
            self.note_miss(item)
            self.make_room(size)
            self.insert(item, size)
        self.peak = max(self.peak, self.used)
        return hit

    def admits(self, item: int, size: int) -> bool:
        return size <= self.capacity

    def make_room(self, incoming: int) -> None:
        while self.used + incoming > self.capacity:
            self.evict(incoming)

    def lose(self, item: int) -> int:
        self.evictions += 1
        return self.sizes.pop(item)

    def note_hit(self, item: int) -> None:
        pass

    def note_miss(self, item: int) -> None:
        pass

    def insert(self, item: int, size: int) -> None:
        self.sizes[item] = size
        self.queue.append(item)

    def evict(self, incoming: int) -> None:
        self.lose(self.queue.pop(0))


class Lru(Cache):
    def note_hit(self, item: int) -> None:
        self.queue.remove(item)
        self.queue.append(item)


class Clock(Cache):
    def __init__(self, capacity: int, counter_bits: int = 1) -> None:
        super().__init__(capacity)
        self.counters: dict[int, int] = {}
        self.most = 2**counter_bits - 1

    def note_hit(self, item: int) -> None:
        self.counters[item] = min(self.counters[item] + 1, self.most)

    def insert(self, item: int, size: int) -> None:
        super().insert(item, size)
        self.counters[item] = 0

    def evict(self, incoming: int) -> None:
        while self.counters[self.queue[0]]:
            self.counters[self.queue[0]] -= 1
            self.queue.append(self.queue.pop(0))
        super().evict(incoming)


class Sieve(Cache):
    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.marked: set[int] = set()
        self.hand: int | None = None  # the object at the hand; None: start with the oldest

    def note_hit(self, item: int) -> None:
        self.marked.add(item)

    def evict(self, incoming: int) -> None:
        place = 0 if self.hand is None else self.queue.index(self.hand)
        while self.queue[place] in self.marked:
            self.marked.remove(self.queue[place])
            place = (place + 1) % len(self.queue)
        self.lose(self.queue.pop(place))
        self.hand = self.queue[place] if place < len(self.queue) else None


class Lfu(Cache):
    """counts and order of accesses, sorted anew for each victim."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.counts: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.now = 0

    def access(self, item: int, size: int) -> bool:
        self.now += 1
        return super().access(item, size)

    def note_hit(self, item: int) -> None:
        self.counts[item] += 1
        self.last[item] = self.now

    def insert(self, item: int, size: int) -> None:
        self.sizes[item] = size
        self.counts[item] = 1
        self.last[item] = self.now

    def evict(self, incoming: int) -> None:
        self.lose(min(self.sizes, key=lambda item: (self.counts[item], self.last[item])))


class Gdsf(Lfu):
    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.inflation = 0.0
        self.priorities: dict[int, float] = {}

    def note_hit(self, item: int) -> None:
        super().note_hit(item)
        self.priorities[item] = self.inflation + self.counts[item] * 1e6 / max(self.sizes[item], 1)

    def make_room(self, incoming: int) -> None:
        if incoming == 0:
            super().make_room(0)

    def insert(self, item: int, size: int) -> None:
        super().insert(item, size)
        self.priorities[item] = self.inflation + 1e6 / max(size, 1)
        super().make_room(0)

    def evict(self, incoming: int) -> None:
        victim = min(self.sizes, key=lambda item: (self.priorities[item], self.last[item]))
        self.inflation = self.priorities[victim]
        self.lose(victim)


class S3Fifo(Cache):
    """queue is not used; ghost holds sizes by name, the oldest first."""

    def __init__(self, capacity: int, threshold: int = 1) -> None:
        super().__init__(capacity)
        self.threshold = threshold
        self.small_share = capacity // 10
        self.ghost_share = capacity * 9 // 10
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: dict[int, int] = {}
        self.accesses: dict[int, int] = {}
        self.from_ghost = False

    def tokens(self, items: list[int]) -> int:
        return sum(self.sizes[item] for item in items)

    def admits(self, item: int, size: int) -> bool:
        return size <= self.small_share

    def note_hit(self, item: int) -> None:
        self.accesses[item] += 1

    def note_miss(self, item: int) -> None:
        self.from_ghost = self.ghost.pop(item, None) is not None

    def insert(self, item: int, size: int) -> None:
        if size == self.small_share and not self.from_ghost:
            return
        full = not self.evictions and self.tokens(self.small) >= self.small_share
        (self.main if self.from_ghost or full else self.small).append(item)
        self.sizes[item] = size
        self.accesses[item] = 0

    def evict(self, incoming: int) -> None:
        if not self.small or self.tokens(self.main) > self.capacity - self.small_share:
            self.evict_main()
        else:
            self.evict_small()

    def evict_main(self) -> None:
        while self.accesses[self.main[0]]:
            item = self.main.pop(0)
            self.accesses[item] = min(self.accesses[item], 3) - 1
            self.main.append(item)
        self.lose(self.main.pop(0))

    def evict_small(self) -> None:
        while self.small:
            item = self.small.pop(0)
            if self.accesses[item] < self.threshold:
                self.remember(item, self.lose(item))
                return
            self.accesses[item] = 0
            self.main.append(item)

    def remember(self, item: int, size: int) -> None:
        if size > self.ghost_share:
            return
        while sum(self.ghost.values()) + size > self.ghost_share:
            del self.ghost[next(iter(self.ghost))]
        self.ghost[item] = size


class Arc(Cache):
    """t1, t2: residents, b1, b2: sizes by name, the oldest first in each."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.b1: dict[int, int] = {}
        self.b2: dict[int, int] = {}
        self.target = 0.0
        self.found = ""  # the ghost in which the last miss was found

    def tokens(self, items: list[int]) -> int:
        return sum(self.sizes[item] for item in items)

    def note_hit(self, item: int) -> None:
        self.found = ""
        (self.t1 if item in self.t1 else self.t2).remove(item)
        self.t2.append(item)

    def note_miss(self, item: int) -> None:
        first, second = sum(self.b1.values()), sum(self.b2.values())
        self.found = "b1" if item in self.b1 else "b2" if item in self.b2 else ""
        if self.found == "b1":
            self.target = min(self.target + max(second / max(first, 1), 1), self.capacity)
            del self.b1[item]
        elif self.found == "b2":
            self.target = max(self.target - max(first / max(second, 1), 1), 0)
            del self.b2[item]

    def insert(self, item: int, size: int) -> None:
        self.sizes[item] = size
        (self.t2 if self.found else self.t1).append(item)

    def evict(self, incoming: int) -> None:
        if not self.found:
            first = self.tokens(self.t1) + sum(self.b1.values())
            if first + incoming > self.capacity:
                if not self.b1:
                    self.lose(self.t1.pop(0))
                    return
                del self.b1[next(iter(self.b1))]
            elif first + self.tokens(self.t2) + sum(self.b2.values()) >= 2 * self.capacity and self.b2:
                del self.b2[next(iter(self.b2))]
        held = self.tokens(self.t1)
        over = held > self.target or (held == self.target and self.found == "b2")
        if (self.t1 and over) or not self.t2:
            item = self.t1.pop(0)
            self.b1[item] = self.lose(item)
        else:
            item = self.t2.pop(0)
            self.b2[item] = self.lose(item)


class Slru(Cache):
    def __init__(self, capacity: int, segments: int = 4) -> None:
        super().__init__(capacity)
        self.room = capacity // segments
        self.segments: list[list[int]] = [[] for _ in range(segments)]

    def tokens(self, segment: int) -> int:
        return sum(self.sizes[item] for item in self.segments[segment])

    def admits(self, item: int, size: int) -> bool:
        return size <= self.room

    def note_hit(self, item: int) -> None:
        segment = next(place for place, items in enumerate(self.segments) if item in items)
        self.segments[segment].remove(item)
        segment = min(segment + 1, len(self.segments) - 1)
        self.segments[segment].append(item)
        while self.tokens(segment) > self.room:
            self.cool(segment)

    def cool(self, segment: int) -> None:
        """One object sinks; then what overflows below does, before the next."""
        item = self.segments[segment].pop(0)
        if segment == 0:
            self.lose(item)
            return
        self.segments[segment - 1].append(item)
        while self.tokens(segment - 1) > self.room:
            self.cool(segment - 1)

    def insert(self, item: int, size: int) -> None:
        fitting = [k for k in range(len(self.segments)) if self.tokens(k) + size <= self.room]
        self.segments[fitting[0] if fitting else 0].append(item)
        self.sizes[item] = size

    def evict(self, incoming: int) -> None:
        self.lose(next(items for items in self.segments if items).pop(0))


TWINS: dict[str, type[Cache]] = {
    "fifo": Cache,
    "lru": Lru,
    "lfu": Lfu,
    "clock": Clock,
    "sieve": Sieve,
    "s3fifo": S3Fifo,
    "arc": Arc,
    "slru": Slru,
    "gdsf": Gdsf,
}
