"""The default engine: order, backlog, errors."""

from __future__ import annotations

import threading
import time

import pytest

from servescope.engine import local


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_slices(threads: int) -> None:
    def work(one: int) -> int:
        time.sleep(0.002 * (one % 3 == 0))
        return one * one

    assert list(local.map(work, range(20), threads=threads)) == [i * i for i in range(20)]
    assert list(local.map(work, [], threads=threads)) == []


def test_no_more_slices_are_begun_than_may_wait() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def work(one: int) -> int:
        with lock:
            begun.append(one)
        return one

    results = local.map(work, range(100), threads=3)
    assert [next(results), next(results)] == [0, 1]
    time.sleep(0.05)
    assert len(begun) <= 5
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_when_its_slice_is_due(threads: int) -> None:
    def work(one: int) -> int:
        if one == 2:
            raise ValueError("slice 2")
        return one

    results = local.map(work, range(50), threads=threads)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="slice 2"):
        next(results)
