"""Folds over one run of items: the order of each, what is alive, errors, ends."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.engine import lanes

SHORT_S = 0.001


class PlannedError(Exception):
    """An error that was to come, with its place."""


@dataclass
class Watched:
    """Items and folds that note what is done with them.

    pauses  (item, fold) -> pauses in that call, a fold of -1 is the making
    errors  (item, fold) of the calls that fail
    """

    folds: int
    pauses: dict[tuple[int, int], int] = field(default_factory=dict)
    errors: frozenset[tuple[int, int]] = frozenset()
    had: list[list[int]] = field(init=False)
    done: list[int] = field(default_factory=list)
    alive: int = 0
    most: int = 0
    begun: int = 0
    busy: set[int] = field(default_factory=set)
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.had = [[] for _ in range(self.folds)]

    def make(self, item: int) -> Item:
        with self.lock:
            self.alive += 1
            self.begun += 1
            self.most = max(self.most, self.alive)
        made = Item(self, item)
        self._pause(item, -1)
        return made

    def fold(self, number: int) -> Any:
        def call(made: Item) -> None:
            with self.lock:
                assert number not in self.busy  # never two calls of a fold at once
                assert number == 0 or made.number in self.had[0]  # the first goes first
                self.busy.add(number)
            try:
                self._pause(made.number, number)
                self.had[number].append(made.number)
            finally:
                with self.lock:
                    self.busy.remove(number)

        return call

    def _pause(self, item: int, fold: int) -> None:
        time.sleep(SHORT_S * self.pauses.get((item, fold), 0))
        if (item, fold) in self.errors:
            raise PlannedError((item, fold))

    def run(self, items: int, **options: Any) -> int:
        calls = [self.fold(number) for number in range(self.folds)]
        return lanes.run(self.make, items, calls, done=self.done.append, **options)


class Item:
    """An item that says when it is let go."""

    def __init__(self, watched: Watched, number: int) -> None:
        self.watched, self.number = watched, number

    def __del__(self) -> None:
        with self.watched.lock:
            self.watched.alive -= 1


places = st.tuples(st.integers(0, 9), st.integers(-1, 3))
pauses = st.dictionaries(places, st.integers(1, 3), max_size=8)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), pauses)
def test_every_fold_has_every_item_in_order(
    items: int, folds: int, threads: int, most: int, pauses: dict[tuple[int, int], int]
) -> None:
    watched = Watched(folds, pauses)
    assert watched.run(items, threads=threads, most=most) == items
    assert watched.had == [list(range(items))] * folds
    assert watched.done == list(range(items))
    assert watched.begun == items
    assert watched.alive == 0
    assert watched.most <= most


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), pauses, st.frozensets(places, min_size=1, max_size=4))
def test_the_error_that_one_thread_would_meet_is_raised(
    folds: int, threads: int, pauses: dict[tuple[int, int], int], errors: frozenset[tuple[int, int]]
) -> None:
    watched = Watched(folds, pauses, errors)
    met = sorted((item, fold) for item, fold in errors if fold < folds)
    if not met:
        assert watched.run(10, threads=threads) == 10
        return
    with pytest.raises(PlannedError) as raised:
        watched.run(10, threads=threads)
    assert raised.value.args == (met[0],)
    item, fold = met[0]
    assert watched.done == list(range(item))
    for number, had in enumerate(watched.had):
        least = item + (number < fold)
        assert had[:least] == list(range(least)) and had == list(range(len(had)))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("servescope")]


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_begun_after_an_error_has_been_met(threads: int) -> None:
    watched = Watched(2, errors=frozenset({(3, 1)}))
    with pytest.raises(PlannedError):
        watched.run(1_000, threads=threads)
    assert watched.begun <= 4 + threads + lanes.SPARE


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 3), pauses)
def test_it_ends_with_every_fold_at_the_same_item_and_goes_on(
    threads: int, asked: int, folds: int, pauses: dict[tuple[int, int], int]
) -> None:
    left = [asked]

    def enough() -> bool:
        left[0] -= 1
        return left[0] <= 0

    watched = Watched(folds, pauses)
    took = watched.run(10, threads=threads, enough=enough)
    assert 1 <= took <= 10
    assert watched.had == [list(range(took))] * folds
    assert watched.done == list(range(took)) and watched.begun == took


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_without_folds_or_items_nothing_is_kept(threads: int) -> None:
    assert lanes.run(lambda item: item, 3, [], threads=threads) == 3
    assert Watched(2).run(0, threads=threads) == 0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_an_error_of_the_caller_ends_the_run(threads: int, kind: type[BaseException]) -> None:
    watched = Watched(3)

    def done(item: int) -> None:
        if item == 2:
            raise kind

    with pytest.raises(kind):
        lanes.run(watched.make, 100_000, [watched.fold(i) for i in range(3)], threads=threads, done=done)
    assert watched.begun < 90_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("servescope")]


def test_an_error_of_enough_ends_the_run() -> None:
    def enough() -> bool:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        Watched(2).run(5, threads=2, enough=enough)


def test_threads_work_side_by_side_and_on_the_fold_that_is_behind() -> None:
    def ignore(made: int) -> None:
        pass

    folding = threading.Barrier(2, timeout=5)
    both = [lambda made: folding.wait()] * 2
    lanes.run(int, 1, [ignore, *both], threads=2)
    making = threading.Barrier(3, timeout=5)
    lanes.run(lambda item: making.wait(), 3, [ignore], threads=3)
