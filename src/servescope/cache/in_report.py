"""What a report says about caches of prefix blocks: a small sweep, LRU's whole curve, where reuse lies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from servescope.cache.block_unit import sampled
from servescope.cache.options import CacheOptions
from servescope.cache.result import result_tables
from servescope.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.result import Table
    from servescope.trace import Trace

POLICIES = ("lru", "workload_aware", "belady_bypass")
CAPACITIES = ("1%", "5%", "10%", "25%", "50%")
MOST_REFERENCES = 20_000_000  # block references that a report replays; a sample follows about as many


def report_options(kv_model: str | None = None) -> CacheOptions:
    """The sweep of a report, without intervals. Raises UsageError for an unknown model."""
    return CacheOptions(
        unit="block", policies=POLICIES, capacities=CAPACITIES, kv_model=kv_model, resamples=0
    )


def report_tables(
    trace: Trace, views: Sequence[Table], options: CacheOptions, *, threads: int | None = None
) -> tuple[list[Table], list[str]]:
    """Tables of the sweep as the command `cache` makes them, without times and intervals; and notes.

    views    tables of the report, of which `reuse_ceiling` knows how many block references there are
    options  as `report_options` gives them
    threads  cells in work at once, None = one a core

    Nothing where the trace has no prefix blocks. Of more than `MOST_REFERENCES` a sample of the prefix tree
    gives LRU's curve alone.
    """
    references = _references(views)
    if not trace.has("block_ids") or not references:
        unused = f"--kv-model {options.kv_model} is not used: the trace has no prefix blocks"
        return [], [unused] if options.kv_model else []
    if references > MOST_REFERENCES:
        return _sampled(trace, references, options)
    tables, notes, _ = result_tables(trace, options, threads=threads)
    return [_untimed(table) for table in tables], notes


def _references(views: Sequence[Table]) -> int:
    rows = [row for table in views if table.name == "reuse_ceiling" for row in table.data.to_pylist()]
    return next((int(row["block_references"] or 0) for row in rows if row["part"] == "whole"), 0)


def _sampled(trace: Trace, references: int, options: CacheOptions) -> tuple[list[Table], list[str]]:
    rate = round(MOST_REFERENCES / references, 6)
    said = (
        f"the trace has {references:,} block references: a report replays {MOST_REFERENCES:,} at most, so "
        f"LRU's curve is that of a sample ({rate:g}); `servescope cache` replays all, and other policies"
    )
    only_sample = replace(options, policies=(), capacities=(), sample=rate)
    try:
        tables, notes = sampled(trace, only_sample, None)
    except DataError as nothing:  # a tree that is cut nowhere can have no subtree in the sample
        return [], [f"no hit curve: {nothing}"]
    return tables, [said, *notes]


def _untimed(table: Table) -> Table:
    """Seconds differ from run to run; a report is the same bytes each time."""
    held = [name for name in table.data.column_names if name != "seconds"]
    return replace(table, data=table.data.select(held))
