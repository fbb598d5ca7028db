"""Policies x sizes x workloads: cells that know nothing of each other, run by an engine in a fixed order.

A unit of caching (whole sessions, blocks) is a function that makes workloads of a trace; what a workload
replays is its own affair. A cell returns counts by group of users, which is all that tables and comparisons
need, so that no cell's hits are kept.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from servescope.engine import local, ray
from servescope.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from servescope.cache.capacity import Size
    from servescope.cache.choice import Choice
    from servescope.cache.clusters import Clusters
    from servescope.cache.simulate import Counted, Tell

    Progress = Callable[[int, int], None]

ENGINES = ("local", "ray")


class Workload(Protocol):
    """What the cells of one model, or of all, replay. Picklable, never modified.

    name      the model, "*" for all requests
    clusters  whose requests they are
    measures  columns that a cell counts, in the order of `Counted.totals`
    bases     what they are divided by: column -> int64[groups], after the warm-up
    rows      requests in all, warm-up included
    whole     what a capacity share is of: tokens of the working set, or distinct blocks
    """

    @property
    def name(self) -> str: ...
    @property
    def clusters(self) -> Clusters: ...
    @property
    def measures(self) -> tuple[str, ...]: ...
    @property
    def bases(self) -> Mapping[str, npt.NDArray[np.int64]]: ...
    @property
    def rows(self) -> int: ...
    @property
    def whole(self) -> int: ...

    def replay(self, choice: Choice, size: Size, *, seed: int, tell: Tell) -> Counted:
        """Run one cell; `tell` is given the requests done since the last call and may raise."""
        ...


class Cell(NamedTuple):
    """One policy at one size over one workload."""

    workload: int
    choice: Choice
    size: Size


class Stopped(Exception):  # noqa: N818 (nobody sees it: the sweep was given up)
    """Raised inside a cell whose sweep ended early."""


@dataclass
class Counter:
    """Counts requests done over all cells, from any thread. Changed by `add`."""

    total: int
    progress: Progress | None = None
    done: int = 0
    given_up: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, requests: int) -> None:
        """Count and report. Raises Stopped where nobody waits any more."""
        if self.given_up:
            raise Stopped
        with self.lock:
            self.done += requests
            if self.progress is not None:
                self.progress(self.done, self.total)

    def give_up(self) -> None:
        """Let cells in work end at their next report."""
        self.given_up = True


@dataclass(frozen=True)
class Run:
    """The work of a cell, picklable for a cluster."""

    workloads: tuple[Workload, ...]
    seed: int

    def __call__(self, cell: Cell, tell: Tell = lambda requests: None) -> Counted:
        """Counts of one cell."""
        return self.workloads[cell.workload].replay(cell.choice, cell.size, seed=self.seed, tell=tell)


def sweep(
    workloads: Sequence[Workload],
    cells: Sequence[Cell],
    *,
    seed: int,
    threads: int,
    engine: str = "local",
    address: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Counted]:
    """Counts of every cell, in the order of the cells.

    threads   cells in work at once; one core each
    engine    "local", or "ray": a task a cell, on the cluster at `address`
    progress  called with (requests replayed, requests in all), from any thread

    Raises UsageError for an unknown engine.
    """
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    run = Run(tuple(workloads), seed)
    counter = Counter(sum(workloads[cell.workload].rows for cell in cells), progress)
    work: Any = partial(run, tell=counter.add)
    if engine == "local":
        yield from local.map(work, cells, threads=threads, give_up=counter.give_up)
        return
    for cell, counted in zip(cells, ray.map(run, cells, threads=threads, address=address), strict=True):
        counter.add(workloads[cell.workload].rows)
        yield counted
