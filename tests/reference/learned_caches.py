"""The caches that count, in plain Python: hit density, frequency sketch, relaxed Belady."""

from __future__ import annotations

from math import frexp, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.reference.caches import Draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.reference.caches import Asked


def mixed(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


class Frequencies:
    """Four rows of counters of each number's own places, a doorkeeper, and halving."""

    def __init__(self, width: int, sample: int) -> None:
        self.width, self.sample, self.seen = width, sample, 0
        self.rows: list[dict[int, int]] = [{} for _ in range(4)]
        self.door: set[int] = set()

    def _places(self, number: int) -> tuple[list[int], set[int]]:
        word = mixed(number + 1)
        own = [mixed((word + row) % 2**64) % self.width for row in range(4)]
        return own, {word % self.width, (word >> 32) % self.width}

    def see(self, number: int) -> None:
        own, door = self._places(number)
        if door <= self.door:
            for row, place in zip(self.rows, own, strict=True):
                row[place] = min(row.get(place, 0) + 1, 15)
        self.door |= door
        self.seen += 1
        if self.seen >= self.sample:
            self.seen //= 2
            self.rows = [{place: count // 2 for place, count in row.items()} for row in self.rows]
            self.door = set()

    def estimate(self, number: int) -> int:
        own, door = self._places(number)
        return min(row.get(place, 0) for row, place in zip(self.rows, own, strict=True)) + (door <= self.door)


def wtinylfu_hits(asked: Sequence[Asked], capacity: int, window: float, protected: float) -> list[bool]:
    """Three lists, oldest first; who leaves the window contests with the oldest of probation."""
    objects = max(min(len({a for a, _, _ in asked}), int(capacity / _mean(asked)) + 1), 16)
    width = 1 << (4 * objects - 1).bit_length()
    known = Frequencies(width, 10 * objects)
    most_window = int(capacity * window)
    most_protected = int((capacity - most_window) * protected)
    new, trial, safe, sizes, hits = [], [], [], {}, []

    def tokens(part: list[int]) -> int:
        return sum(sizes[item] for item in part)

    for item, size, _ in asked:
        known.see(item)
        hits.append(item in sizes)
        if item not in sizes and size > capacity:
            continue
        home = safe if item in trial or item in safe else new
        for part in (new, trial, safe):
            if item in part:
                part.remove(item)
        home.append(item)
        sizes[item] = size
        while tokens(safe) > most_protected:
            trial.append(safe.pop(0))
        candidates = []
        while tokens(new) > most_window:
            candidates.append(new.pop(0))
        trial += candidates
        while sum(sizes.values()) > capacity:
            victim = (trial or safe or new)[0]
            if candidates:
                contest = known.estimate(candidates[0]) > known.estimate(victim)
                if victim == candidates[0] or not contest:
                    victim = candidates.pop(0)
            for part in (new, trial, safe):
                if victim in part:
                    part.remove(victim)
            del sizes[victim]
    return hits


def _mean(asked: Sequence[Asked]) -> float:
    return max(sum(size for _, size, _ in asked) / len(asked), 1.0)


BINS, CLASSES = 320, 16


def age_bin(age: int) -> int:
    """Eight bins an octave, evenly over the octave."""
    fraction, exponent = frexp(age)  # age = fraction x 2^exponent, fraction in [0.5, 1)
    return min((exponent - 1) * 8 + int((2 * fraction - 1) * 8), BINS - 1)


def lhd_hits(asked: Sequence[Asked], capacity: int, seed: int, period: int) -> list[bool]:
    """Hit density by class and age; one drawn resident of the least goes."""
    draws, held, hits = Draws(seed), [], []
    sizes: dict[int, int] = {}
    last: dict[int, tuple[int, int, int]] = {}  # object -> access, last hit age, class
    hit_events, ends = np.zeros((CLASSES, BINS)), np.zeros((CLASSES, BINS))
    density = np.tile(1 / 2.0 ** (np.arange(BINS) / 8), (CLASSES, 1))

    def rank(item: int, now: int) -> float:
        used, _, kind = last[item]
        return float(density[kind, age_bin(max(now - used, 1))]) / max(sizes[item], 1)

    def make_room(incoming: int, now: int) -> None:
        while sum(sizes.values()) + incoming > capacity:
            drawn = held if len(held) <= 32 else [held[draws.below(len(held))] for _ in range(32)]
            victim = min(drawn, key=lambda item: rank(item, now))
            ends[last[victim][2], age_bin(max(now - last[victim][0], 1))] += 1
            place = held.index(victim)
            held[place] = held[-1]
            held.pop()
            del sizes[victim]

    for now, (item, size, _) in enumerate(asked, 1):
        if now % period == 0 and hit_events.sum() + ends.sum() > 0:
            density = densities(hit_events, ends)
            hit_events *= 0.9
            ends *= 0.9
        hits.append(item in sizes)
        if item in sizes:
            used, before, kind = last[item]
            hit_events[kind, age_bin(now - used)] += 1
            span = now - used + before
            last[item] = (now, now - used, min(1 + int(log2(span)) // 2, CLASSES - 1))
            sizes[item] = size
            make_room(0, now)
        elif size <= capacity:
            make_room(size, now)
            held.append(item)
            sizes[item], last[item] = size, (now, 0, 0)
    return hits


def densities(hit_events: Any, ends: Any) -> Any:
    """Hits to come / lifetime to come of every class and age, leaning on all classes by one event."""
    total = hit_events.sum() + ends.sum()
    hit = hit_events + hit_events.sum(axis=0) / total
    ended = hit + ends + ends.sum(axis=0) / total
    widths = 2.0 ** (np.arange(1, BINS + 1) / 8) - 2.0 ** (np.arange(BINS) / 8)
    after = np.cumsum(ended[:, ::-1], axis=1)[:, ::-1] - ended
    lifetime = np.cumsum((widths * (after + ended / 2))[:, ::-1], axis=1)[:, ::-1]
    to_hit = np.cumsum(hit[:, ::-1], axis=1)[:, ::-1]
    return np.divide(to_hit, lifetime, out=np.zeros_like(to_hit), where=lifetime > 0)


def lrb_hits(
    asked: Sequence[Asked],
    capacity: int,
    seed: int,
    window: int,
    batch: int,
    train: Callable[[Any, Any, int], Callable[[Any], Any]],
) -> tuple[list[bool], int]:
    """Relaxed Belady: hits, trainings.

    train  (features, labels, number of trainings before) -> the model, features -> predictions
    """
    draws, held, sizes, hits = Draws(seed), [], {}, []
    times: dict[int, list[int]] = {}  # object -> its accesses since it was last forgotten
    last: dict[int, int] = {}
    decayed: dict[int, Any] = {}
    waiting: dict[int, list[int]] = {}
    rows: list[Any] = []
    labels: list[float] = []
    model: Callable[[Any], Any] | None = None
    trainings = 0

    def features(item: int, now: int) -> Any:
        known = times[item]
        gaps = [now - known[-1], *(b - a for a, b in zip(known[::-1][1:], known[::-1][:-1], strict=True))][
            :32
        ]
        gaps += [2 * window] * (32 - len(gaps))
        fades = [2.0 ** (-(now - known[-1]) / window)]
        for _ in range(9):
            fades.append(fades[-1] ** 2)
        counts = [float(c) * f for c, f in zip(decayed[item], fades, strict=True)]
        return np.array([*gaps, asked[known[-1]][1], len(known), *counts], np.float32)

    def settle(item: int, now: int, distance: int | None) -> None:
        for taken in reversed(waiting.pop(item, [])):
            rows.append(features(item, taken))
            labels.append(np.log1p(now - taken if distance is None else distance))

    def choose(now: int) -> int:
        oldest = min(held, key=last.__getitem__)
        if model is None or now - last[oldest] >= window:
            return oldest
        drawn = held if len(held) <= 64 else [held[draws.below(len(held))] for _ in range(64)]
        coming = model(np.array([features(item, now) for item in drawn]))
        return max(zip(coming, [-last[item] for item in drawn], drawn, strict=True))[2]

    def make_room(incoming: int, now: int) -> None:
        while sum(sizes.values()) + incoming > capacity:
            victim = choose(now)
            place = held.index(victim)
            held[place] = held[-1]
            held.pop()
            del sizes[victim]

    for now, (item, size, _) in enumerate(asked):
        if now >= window and last[asked[now - window][0]] == now - window:
            settle(asked[now - window][0], now, 2 * window)
        settle(item, now, None)
        gap = now - last.get(item, -window)
        if gap >= window:
            times[item], decayed[item] = [], np.zeros(10, np.float32)
        fade = 2.0 ** (-min(gap, window) / window)
        for place in range(10):
            decayed[item][place] = 1 + float(decayed[item][place]) * fade
            fade *= fade
        times[item].append(now)
        last[item] = now
        hits.append(item in sizes)
        if item in sizes:
            sizes[item] = size
            make_room(0, now)
        elif size <= capacity:
            make_room(size, now)
            held.append(item)
            sizes[item] = size
        for _ in range(4):
            number = now - draws.below(min(window, now + 1))
            if last[asked[number][0]] == number:
                waiting.setdefault(asked[number][0], []).append(now)
                break
        if len(rows) >= batch:
            model = train(np.array(rows), np.array(labels, np.float32), trainings)
            rows, labels = [], []
            trainings += 1
    return hits, trainings
