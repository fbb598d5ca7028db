"""Reading ahead: a few threads decode pieces of a file while the caller goes through them in order."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Done = TypeVar("Done")

MOST_THREADS = 4  # each holds a decoded piece; a disk gives no more to many than to a few


def ahead(work: Callable[[int], Done], count: int) -> Generator[Done, None, None]:
    """Yield `work(0)` … `work(count - 1)` in order; at most `MOST_THREADS + 1` results wait.

    An error in `work` is raised when its turn comes. Where the caller may leave early, it closes the
    generator (`contextlib.closing`): only then is nothing in work any more.
    """
    threads = min(os.cpu_count() or 1, MOST_THREADS, count)
    if threads <= 1:
        yield from map(work, range(count))
        return
    pending: deque[Future[Done]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="servescope")
    try:
        for index in range(count):
            if len(pending) > threads:
                yield pending.popleft().result()
            pending.append(pool.submit(work, index))
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
