"""What one scan has to do: its trace and views, what is merged already, and how it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from servescope.views.growth import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from servescope.trace import Trace
    from servescope.views.resume import Keeper, Merged
    from servescope.views.sketch import Context, View

    Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Running:
    """How a scan runs.

    threads   threads at work, or cores of a Ray cluster that is started
    engine    name in `scan.ENGINES`
    address   of a running Ray cluster
    folder    where the state is kept, None: nowhere
    resume    whether to go on from the state that is there
    progress  called with rows done and rows in total
    """

    threads: int = 1
    engine: str = "local"
    address: str | None = None
    folder: Path | None = None
    resume: bool = False
    progress: Progress | None = None


@dataclass(frozen=True)
class Job:
    """A scan.

    views    that are wanted
    merged   sketches of the first parts, which the scan brings to the end of the trace; changed
    keeper   of states, None: none is kept
    """

    trace: Trace
    views: Sequence[View]
    context: Context
    merged: Merged
    keeper: Keeper | None
    running: Running

    @property
    def ordered(self) -> tuple[View, ...]:
        """Views that need all rows in order: no state of theirs is kept, or merged."""
        return tuple(view for view in self.views if view.ordered)

    def begin(self) -> tuple[View, ...]:
        """Make an empty sketch for each other view that has none; those views. Changes `merged`."""
        anew = tuple(v for v in self.views if not v.ordered and v.name not in self.merged.sketches)
        for view in anew:
            asked = self.merged.asked[view.name] = set()
            self.merged.sketches[view.name] = view.new(watched(self.context, asked))
            asked.clear()  # what an empty sketch depends on shows in the sketch itself
        return anew


@dataclass
class Counter:
    """Rows done so far, told to `progress` from any thread."""

    total: int
    progress: Progress | None
    done: int = 0
    lock: Any = field(default_factory=Lock)

    def add(self, rows: int) -> None:
        """Count rows as done."""
        if self.progress is not None:
            with self.lock:
                self.done += rows
                self.progress(self.done, self.total)
