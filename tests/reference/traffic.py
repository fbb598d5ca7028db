"""The tables of a request type's traffic in plain Python, from rows as dicts."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

from tests.reference.histogram import log_rows, quantile

Row = dict[str, Any]


def scopes(rows: list[Row], types: list[str]) -> list[tuple[str, list[Row]]]:
    """All rows, then the rows of each type."""
    return [("*", rows), *((t, [row for row in rows if row["request_type"] == t]) for t in types)]


def windows(rows: list[Row], last_us: int, us: int) -> list[list[Row]]:
    """Rows of every window from 0 to the last request of the trace."""
    found: list[list[Row]] = [[] for _ in range(last_us // us + 1)]
    for row in rows:
        found[row["arrival_us"] // us].append(row)
    return found


def total(rows: list[Row], name: str) -> int:
    """Sum of a column, unknown as 0."""
    return sum(row[name] or 0 for row in rows)


def rate(rows: list[Row], types: list[str], last_us: int, us: int) -> list[tuple[Any, ...]]:
    """request_type, start_us, requests, input, output, complete."""
    return [
        (
            text,
            at * us,
            len(held),
            total(held, "input_tokens"),
            total(held, "output_tokens"),
            (at + 1) * us <= last_us,
        )
        for text, own in scopes(rows, types)
        for at, held in enumerate(windows(own, last_us, us))
    ]


def gaps(rows: list[Row]) -> list[float]:
    """Seconds between neighbours."""
    times = [row["arrival_us"] for row in rows]
    return [(b - a) / 1e6 for a, b in itertools.pairwise(times)]


def variation(values: list[float], *, sample: bool = False) -> float | None:
    """Deviation / mean, None where it is undefined."""
    if len(values) < 1 + sample or not sum(values):
        return None
    spread = statistics.stdev(values) if sample else statistics.pstdev(values)
    return spread / statistics.fmean(values)


def arrivals(rows: list[Row], last_us: int) -> dict[str, Any]:
    """The gap and peak columns of `arrival_stats` for one scope."""
    every = gaps(rows)
    above = [gap for gap in every if gap > 0]
    counts = [len(held) for held in windows(rows, last_us, 10_000_000)]
    return {
        "requests": len(rows),
        "iat_mean_s": statistics.fmean(every) if every else None,
        "iat_p50_s": quantile(every, 0.5),
        "iat_cv_population": variation(every),
        "iat_cv_sample": variation(every, sample=True),
        "positive_gaps": len(above),
        "iat_positive_mean_s": statistics.fmean(above) if above else None,
        "iat_positive_p50_s": quantile(above, 0.5),
        "iat_positive_cv_population": variation(above),
        "iat_positive_cv_sample": variation(above, sample=True),
        "peak_10s_per_s": max(counts) / 10,
        "peak_to_mean": max(counts) / statistics.fmean(counts),
        "distinct_timestamps": len({row["arrival_us"] for row in rows}),
    }


def lengths(rows: list[Row], column: str, *, leave_out_failed: bool) -> dict[str, Any]:
    """The columns of `length_stats` and the bins of `length_ccdf` for one scope and metric."""
    failed = [row for row in rows if leave_out_failed and row["status"] == "failed"]
    kept = [row for row in rows if row not in failed]
    values = [row[column] for row in kept if row[column] is not None]
    return {
        "n": len(values),
        "unknown": len(kept) - len(values),
        "failed_excluded": len(failed),
        "sum": sum(values) if values else None,
        "mean": statistics.fmean(values) if values else None,
        "max": max(values, default=None),
        **{f"p{round(q * 100)}": quantile(values, q) for q in (0.1, 0.5, 0.9, 0.99)},
        "bins": log_rows(values),
    }


def multi_turn(rows: list[Row], own: list[Row]) -> float | None:
    """Requests with a parent or a child in the trace over all requests of a scope."""
    parents = {row["parent_id"] for row in rows}
    linked = [r for r in own if r["parent_id"] is not None or r["request_id"] in parents]
    return len(linked) / len(own) if own else None
