"""Checks of a whole trace that no single row can fail: the order, ids, sessions and blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.errors import DataError
from servescope.result import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servescope.trace import Batch, Trace

Mask = npt.NDArray[np.bool_]

DOC = (
    "One check: rows that it looked at, rows that failed, the first of them (request_id), and whether "
    "a failing row is an error (the trace is not canonical) or a remark (odd, but as the source states it)."
)


@dataclass(frozen=True)
class Check:
    """One question put to every row.

    name      as printed
    severity  "error" or "remark"
    columns   columns that it reads; it is left out where the trace lacks one
    failing   batch -> bool[rows], True where the row fails
    """

    name: str
    severity: str
    columns: tuple[str, ...]
    failing: Callable[[Batch], Mask]


def _column(batch: Batch, name: str) -> npt.NDArray[Any]:
    return batch[name]


def _known(batch: Batch, name: str) -> Mask:
    return _column(batch, name) != schema.BY_NAME[name].null  # type: ignore[no-any-return]


def _negative(name: str) -> Check:
    def failing(batch: Batch) -> Mask:
        return _known(batch, name) & np.less(batch[name], 0)  # type: ignore[no-any-return]

    return Check(f"{name} is negative", "remark", (name,), failing)


def _unnumbered(batch: Batch) -> Mask:
    return np.not_equal(batch["request_id"], np.arange(batch.start, batch.start + batch.rows))  # type: ignore[no-any-return]


def _parent_not_earlier(batch: Batch) -> Mask:
    parent, own = _column(batch, "parent_id"), _column(batch, "request_id")
    return _known(batch, "parent_id") & (np.greater_equal(parent, own) | np.less(parent, 0))  # type: ignore[no-any-return]


def _turn_below_one(batch: Batch) -> Mask:
    return _known(batch, "turn") & np.less(batch["turn"], 1)  # type: ignore[no-any-return]


def _ends_before_arrival(batch: Batch) -> Mask:
    return _known(batch, "completed_us") & np.less(  # type: ignore[no-any-return]
        _column(batch, "completed_us"), _column(batch, "arrival_us")
    )


def _more_cached_than_input(batch: Batch) -> Mask:
    both = _known(batch, "cached_tokens") & _known(batch, "input_tokens")
    return both & np.greater(_column(batch, "cached_tokens"), _column(batch, "input_tokens"))  # type: ignore[no-any-return]


CHECKS: tuple[Check, ...] = (
    Check("request_id does not count 0, 1, 2 …", "error", ("request_id",), _unnumbered),
    Check("parent is not an earlier request", "error", ("parent_id", "request_id"), _parent_not_earlier),
    Check("turn is below 1", "error", ("turn",), _turn_below_one),
    Check("completed before it arrived", "remark", ("completed_us", "arrival_us"), _ends_before_arrival),
    Check(
        "more cached than input tokens", "remark", ("cached_tokens", "input_tokens"), _more_cached_than_input
    ),
    _negative("input_tokens"),
    _negative("output_tokens"),
    _negative("cached_tokens"),
)


def validate(trace: Trace) -> Table:
    """Put every check that the trace's columns allow to every row: the table `checks`.

    Columns: check, severity, rows, failed, first_request. Reads the trace once.
    """
    checks = [check for check in CHECKS if all(trace.has(name) for name in check.columns)]
    columns = sorted({name for check in checks for name in check.columns} | {"arrival_us"})
    if trace.meta.block_tokens and trace.has("block_ids") and trace.has("input_tokens"):
        columns = [*columns, "block_ids"]
        columns += [] if "input_tokens" in columns else ["input_tokens"]
        checks.append(_block_check(trace.meta.block_tokens))
    found = {check.name: [0, -1] for check in checks}
    late = [0, -1]
    for batch, disorder in _batches(trace, columns):
        _count(late, disorder, batch.start)
        for check in checks:
            _count(found[check.name], check.failing(batch), batch.start)
    rows = [("arrives before the row above", "error", late)]
    rows += [(check.name, check.severity, found[check.name]) for check in checks]
    return _table(rows, trace.rows)


def refuse_errors(trace: Trace, checks: Table) -> None:
    """Raise DataError for the first check of severity "error" in `checks` that has failing rows."""
    for row in checks.rows():
        if row["severity"] == "error" and row["failed"]:
            raise DataError(
                f"{trace.meta.sources[0].name}: {row['check']} in {row['failed']:,} of {row['rows']:,} rows "
                f"(first: request_id {row['first_request']}). The trace is not canonical; "
                "convert it again from its source."
            )


def _block_check(block_tokens: int) -> Check:
    def failing(batch: Batch) -> Mask:
        blocks = np.diff(batch.block_offsets)
        tokens = batch["input_tokens"].astype(np.int64)
        whole, rounded_up = tokens // block_tokens, -(-tokens // block_tokens)
        wrong = np.not_equal(blocks, whole) & np.not_equal(blocks, rounded_up)
        return wrong & ~batch.block_null & _known(batch, "input_tokens")

    return Check("blocks do not cover the input", "remark", ("block_ids", "input_tokens"), failing)


def _batches(trace: Trace, columns: list[str]) -> Iterator[tuple[Batch, Mask]]:
    """Each batch, and where its rows are earlier than the row before (across batches too)."""
    last: int | None = None
    for batch in trace.batches(columns):
        arrival = batch["arrival_us"].astype(np.int64)
        before = np.concatenate([arrival[:1] if last is None else [last], arrival[:-1]])
        yield batch, arrival < before
        last = int(arrival[-1]) if batch.rows else last


def _count(found: list[int], failing: Mask, start: int) -> None:
    """Add the failing rows to [failed, first request_id]. Changes `found`."""
    hits = np.flatnonzero(failing)
    if len(hits):
        found[1] = start + int(hits[0]) if found[1] < 0 else found[1]
        found[0] += len(hits)


def _table(rows: list[tuple[str, str, list[int]]], total: int) -> Table:
    data = {
        "check": [row[0] for row in rows],
        "severity": [row[1] for row in rows],
        "rows": [total] * len(rows),
        "failed": [row[2][0] for row in rows],
        "first_request": pa.array([row[2][1] if row[2][1] >= 0 else None for row in rows], pa.int64()),
    }
    return Table("checks", pa.table(data), DOC)
