"""Several folds over one run of items, on threads: items are made in parallel, each fold keeps their order.

    run(make, 100, [first, second, third], threads=2)

An item is made once, folded by every fold and let go. A fold is called with item after item by one thread at
a time, so it needs no lock, and what it comes to does not depend on the threads. What is done next is
chosen so that few items are alive: the fold that is furthest behind, and a new item only if none can go on.
"""

from __future__ import annotations

import math
import time
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Made = TypeVar("Made")
MAKE = -1  # in place of a fold's number
SPARE = 1  # items alive beside one a thread


def never() -> bool:
    """The default of `enough`."""
    return False


def ignore(item: int) -> None:
    """The default of `done`."""


def run(
    make: Callable[[int], Made],
    items: int,
    folds: Sequence[Callable[[Made], object]],
    *,
    threads: int = 1,
    most: int | None = None,
    enough: Callable[[], bool] = never,
    done: Callable[[int], object] = ignore,
) -> int:
    """Fold items 0 … items - 1 into every fold; returns how many were folded.

    make    makes an item from its number, on any thread, several at once
    folds   the first goes first: no other is called with an item before it, so it may refuse one for all
    most    items alive at once, those in the making included, at least 1
    enough  asked before each item but the first: true ends the run there, with every fold at the same item
    done    called in this thread with the number of each item that all folds have had, in order

    Raises what one thread would have raised: the error of the earliest item, of the first fold of those;
    what it would not have come to is dropped, or ends first if it was begun. An error in `done`, or an
    interrupt, ends the run as soon as each thread has ended its call.
    """
    if threads <= 1 or not folds:
        return _alone(make, items, folds, enough, done)
    line = _Line(make, items, folds, most or threads + SPARE, enough)
    workers = [Thread(target=line.work, name=f"servescope-{i}") for i in range(threads)]
    try:
        for worker in workers:
            worker.start()
        line.watch(done)
    finally:
        line.close()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    if line.error is not None:
        raise line.error
    return line.end


def _alone(
    make: Callable[[int], Made],
    items: int,
    folds: Sequence[Callable[[Made], object]],
    enough: Callable[[], bool],
    done: Callable[[int], object],
) -> int:
    for item in range(items):
        if item and enough():
            return item
        made = make(item)
        for fold in folds:
            fold(made)
        del made  # before the next one is made
        done(item)
    return items


class _Line(Generic[Made]):
    """What is under way on several threads; `turn` guards all of it.

    begun    items begun
    end      items to begin
    made     items that are alive and made, by number
    had      items that each fold has had
    busy     whether it is called just now
    spent_s  time that it has taken so far
    running  calls under way
    limit    (item, fold) from which nothing is begun, because of `error`
    """

    def __init__(
        self,
        make: Callable[[int], Made],
        items: int,
        folds: Sequence[Callable[[Made], object]],
        most: int,
        enough: Callable[[], bool],
    ) -> None:
        self.make, self.folds, self.most, self.enough = make, folds, most, enough
        self.turn = Condition()
        self.begun, self.end, self.running = 0, items, 0
        self.made: dict[int, Made] = {}
        self.had, self.busy, self.spent_s = [0] * len(folds), [False] * len(folds), [0.0] * len(folds)
        self.limit: tuple[float, int] = (math.inf, 0)
        self.error: BaseException | None = None
        self.closed = False

    def work(self) -> None:
        """Do what is next until there is nothing more. Called by every thread."""
        try:
            while (task := self._wait()) is not None:
                self._do(*task)
        except BaseException as raised:  # of `enough`
            with self.turn:
                self.error = raised
            self.close()

    def _do(self, item: int, fold: int) -> None:
        made: Any = None
        error = None
        begun = time.perf_counter()
        try:
            if fold == MAKE:
                made = self.make(item)
            else:
                self.folds[fold](self.made[item])
        except BaseException as raised:  # for the caller's thread
            error = raised
        with self.turn:
            self._ended(item, fold, made, error, time.perf_counter() - begun)

    def watch(self, done: Callable[[int], object]) -> None:
        """Tell `done` of every item, until nothing more comes. Called by the caller's thread."""
        told, over = 0, False
        while not over:
            with self.turn:
                while not (over := self._over()) and min(self.had) == told:
                    self.turn.wait()
                passed = min(self.had)
            for item in range(told, passed):
                done(item)
            told = passed

    def close(self) -> None:
        """Begin nothing more."""
        with self.turn:
            self.closed = True
            self.turn.notify_all()

    def _wait(self) -> tuple[int, int] | None:
        """The next task, begun; None when there is none and none can come."""
        with self.turn:
            while True:
                task = None if self.closed else self._next()
                if task is not None:
                    self._begin(*task)
                    return task
                if self._over():
                    self.turn.notify_all()
                    return None
                self.turn.wait()

    def _over(self) -> bool:
        return self.closed or (not self.running and self._next() is None)

    def _next(self) -> tuple[int, int] | None:
        """What to do next: the fold furthest behind, of equals the slowest; an item if none can go on."""
        ready = [fold for fold in range(len(self.folds)) if self._may(fold)]
        if ready:
            fold = min(ready, key=lambda at: (self.had[at], -self.spent_s[at]))
            return self.had[fold], fold
        return (self.begun, MAKE) if self._room() else None

    def _may(self, fold: int) -> bool:
        item = self.had[fold]
        if self.busy[fold] or item not in self.made or (item, fold) >= self.limit:
            return False
        return fold == 0 or item < self.had[0]

    def _room(self) -> bool:
        """Whether one more item may be begun."""
        if self.begun == self.end or self.begun - min(self.had) >= self.most:
            return False
        if (self.begun, MAKE) >= self.limit:
            return False
        if self.begun and self.enough():
            self.end = self.begun
            return False
        return True

    def _begin(self, item: int, fold: int) -> None:
        self.running += 1
        if fold == MAKE:
            self.begun += 1
        else:
            self.busy[fold] = True

    def _ended(self, item: int, fold: int, made: Any, error: BaseException | None, seconds: float) -> None:
        self.running -= 1
        if fold != MAKE:
            self.busy[fold] = False
            self.spent_s[fold] += seconds
        if error is not None:
            if (item, fold) < self.limit:
                self.limit, self.error = (item, fold), error
        elif fold == MAKE:
            self.made[item] = made
        else:
            self.had[fold] += 1
            if min(self.had) > item:
                del self.made[item]
        self.turn.notify_all()
