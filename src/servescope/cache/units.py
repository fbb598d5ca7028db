"""What is cached: whole sessions, or blocks. A unit is one file and one row here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from servescope import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.options import CacheOptions
    from servescope.cache.sweep import Workload
    from servescope.result import Table
    from servescope.trace import Trace

UNITS: dict[str, str] = {
    "session": "servescope.cache.session_unit",
    "block": "servescope.cache.block_unit",
}


def nothing(*_: Any) -> tuple[list[Table], list[str]]:
    """A unit's tables beside those of cells, where it has none."""
    return [], []


@dataclass(frozen=True)
class Unit:
    """A unit of caching.

    name       as in `UNITS`
    policies   name -> module of its policies
    usual      policies that are run where none is named
    reference  the policy that stands for the best there is, in the column of distances
    prepare    loads and compiles a policy, so that no replay is timed with it
    workload   (trace, rows, options, **running) -> what the cells replay, and notes; `rows` says which model,
               window and sessions, running: threads, engine, address
    curve      (workloads, sizes of each, options) -> the table `curve`, and notes
    beside     (trace, workloads, sizes of each, options) -> tables that are not of cells, and notes
    sampled    (trace, options, progress) -> tables and notes of a part of the trace, in place of a sweep;
               None: the unit cannot be sampled
    tables     finished sweeps, one a workload -> tables about them beside `cache`
    """

    name: str
    policies: Mapping[str, str]
    usual: tuple[str, ...]
    reference: str
    prepare: Callable[[Any], None]
    workload: Callable[..., tuple[Workload, list[str]]]
    curve: Callable[[Sequence[Any], Sequence[Sequence[Size]]], tuple[Table, list[str]]]
    tables: Callable[[Sequence[Any]], list[Table]]
    beside: Callable[..., tuple[list[Table], list[str]]] = nothing
    sampled: Callable[..., tuple[list[Table], list[str]]] | None = None


def unit_of(trace: Trace, options: CacheOptions) -> Unit:
    """The unit that is meant. Raises UsageError for an unknown one."""
    sessions = options.preset is not None or not trace.has("block_ids")  # presets are of sessions
    usual = "session" if sessions else "block"
    return cast("Unit", registry.load("unit", UNITS, options.unit or usual, "UNIT"))
