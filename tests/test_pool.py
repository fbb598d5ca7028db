"""Work on threads: order, backlog, errors, what is left behind."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from functools import partial

import pytest

from servescope.pool import in_order, results


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def work(one: int) -> int:
        time.sleep(0.002 * (one % 3 == 0))
        return one * one

    assert list(in_order(work, range(20), threads=threads)) == [i * i for i in range(20)]
    assert list(in_order(work, [], threads=threads)) == []


def test_no_more_items_are_begun_than_may_wait() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def work(one: int) -> int:
        with lock:
            begun.append(one)
        return one

    with closing(in_order(work, range(100), threads=3)) as found:
        assert [next(found), next(found)] == [0, 1]
        time.sleep(0.05)
        assert len(begun) <= 5
    assert not [one for one in threading.enumerate() if one.name.startswith("servescope")]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_when_its_item_is_due(threads: int) -> None:
    begun: list[int] = []

    def work(one: int) -> int:
        begun.append(one)
        if one == 2:
            raise ValueError("item 2")
        return one

    found = in_order(work, range(50), threads=threads)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="item 2"):
        next(found)
    assert len(begun) < 10
    assert not [one for one in threading.enumerate() if one.name.startswith("servescope")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_calls_side_by_side(threads: int) -> None:
    def call(at: int) -> int:
        time.sleep(0.002 * (at % 3 == 0))
        return at

    assert results([partial(call, at) for at in range(9)], threads=threads) == list(range(9))
    assert results([], threads=threads) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_of_calls_is_raised_and_the_rest_is_dropped(threads: int) -> None:
    begun: list[int] = []

    def call(at: int) -> None:
        begun.append(at)
        time.sleep(0.001)
        if at in (2, 3):
            raise ValueError(f"call {at}")

    with pytest.raises(ValueError, match="call 2"):
        results([partial(call, at) for at in range(500)], threads=threads)
    assert len(begun) < 100


def test_work_at_hand_is_told_when_nobody_waits_any_more() -> None:
    begun, given_up = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work(one: int) -> int:
        if one:
            begun.set()
            ended.append(given_up.wait(20))
        else:
            begun.wait(20)
        return one

    found = in_order(work, range(3), threads=2, give_up=given_up.set)
    assert next(found) == 0
    found.close()
    assert ended and all(ended)
    assert list(in_order(lambda one: one, range(4), threads=2, give_up=given_up.clear)) == [0, 1, 2, 3]
    assert given_up.is_set()
