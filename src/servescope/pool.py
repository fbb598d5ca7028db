"""Work on threads of this process, its results in order. Kernels and decoding run without the GIL."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

Item = TypeVar("Item")
Done = TypeVar("Done")


def in_order(
    work: Callable[[Item], Done],
    items: Iterable[Item],
    *,
    threads: int = 1,
    give_up: Callable[[], None] = lambda: None,
) -> Generator[Done, None, None]:
    """Yield `work(item)` for every item, in their order.

    threads  how many items are in work at once; one more waits, so that none of the threads is idle while
             the caller is busy with a result
    give_up  called where the rest is not wanted any more, before items in work are waited for

    An error in `work` is raised when its item is due; items not yet begun are dropped. Where the caller may
    leave early, it closes the generator (`contextlib.closing`): only then is nothing in work any more.
    """
    if threads <= 1:
        for one in items:
            yield work(one)
        return
    pending: deque[Future[Done]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="servescope")
    try:
        for one in items:
            if len(pending) > threads:
                yield pending.popleft().result()
            pending.append(pool.submit(work, one))
        while pending:
            yield pending.popleft().result()
    except BaseException:
        give_up()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def results(calls: Iterable[Callable[[], Done]], *, threads: int = 1) -> list[Done]:
    """What the calls return, in their order; they are begun in it too, `threads` at work at once.

    The first error by order is raised; calls not yet begun are dropped then.
    """
    if threads <= 1:
        return [call() for call in calls]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="servescope")
    try:
        return [pending.result() for pending in [pool.submit(call) for call in calls]]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
