"""The engine `ray` (extra `ray`): slices as tasks of a Ray cluster, running or started for the run.

A task that is lost with its worker or its node is run again. What tasks return should be small: they
leave states in files of a folder that all nodes share, and return the path.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from servescope.errors import ServescopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

Slice = TypeVar("Slice")
Done = TypeVar("Done")
REACH_S = 10
RETRIES = 5  # runs of a task again after its worker or node died; an error in the work is raised at once


def _call(work: Callable[[Slice], Done], one: Slice) -> Done:
    return work(one)


def map(
    work: Callable[[Slice], Done], slices: Sequence[Slice], *, threads: int = 1, address: str | None = None
) -> Generator[Done, None, None]:
    """Yield `work(slice)` for every slice, in the order of the slices; both must be picklable.

    threads  cores of the cluster that is started where none is given and none is connected
    address  of a running cluster, as `ray.init` takes it ("auto", "HOST:PORT", "ray://HOST:PORT")

    An error in `work` is raised as it was, when its slice is due; closing as `local.map`. Raises UsageError
    without Ray or where the cluster cannot be reached, ServescopeError where a task was lost too often.
    """
    ray = _ray()
    own = not ray.is_initialized()
    if own:
        _connect(ray, threads, address)
    pending: deque[Any] = deque()
    try:
        task = ray.remote(max_retries=RETRIES, num_cpus=1)(_call)
        shared = ray.put(work)
        most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        for one in slices:
            if len(pending) == most:
                yield _result(ray, pending.popleft())
            pending.append(task.remote(shared, one))
        while pending:
            yield _result(ray, pending.popleft())
    finally:
        for one in pending:
            ray.cancel(one, force=True)
        if own:
            ray.shutdown()


def _ray() -> Any:
    """The package. Raises UsageError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            'the engine "ray" needs the package ray: pip install "servescope[ray]", or use --engine local.'
        ) from error
    return ray


def _connect(ray: Any, threads: int, address: str | None) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address:
            _reach(address)
            ray.init(address=address, **quiet)
        else:
            ray.init(address="local", num_cpus=threads, include_dashboard=False, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UsageError(
            f"no Ray cluster at {address or 'this machine'}: {first}. Is it running, and of the same version "
            "of Ray and Python? Without --address one is started for the run."
        ) from error


def _reach(address: str) -> None:
    """Raises OSError where nobody listens at HOST:PORT: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()


def _result(ray: Any, pending: Any) -> Any:
    try:
        return ray.get(pending)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ServescopeError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ServescopeError(
            f"a task on the Ray cluster was lost {RETRIES + 1} times ({first}). Give its nodes more memory, "
            "then run again with --resume."
        ) from error
