"""The gap tables in plain Python: sort by key, look at neighbours."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.reference.histogram import log_rows, quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Row = dict[str, Any]
HOUR_US = 3_600_000_000


def starts(rows: list[Row], key: Callable[[Row], Hashable | None]) -> dict[Any, list[int]]:
    """key -> arrivals in order; rows whose key is None are left out."""
    held: dict[Any, list[int]] = {}
    for row in rows:
        at = key(row)
        if at is not None:
            held.setdefault(at, []).append(row["arrival_us"])
    return held


def above_zero(times: list[int]) -> list[int]:
    """Gaps above 0, microseconds."""
    return [b - a for a, b in pairwise(times) if b > a]


def moments(gaps: list[int]) -> tuple[float | None, float | None, float | None]:
    """Mean (s), sum of squared deviations (s^2), coefficient of variation from 5 gaps on."""
    if not gaps:
        return None, None, None
    mean = Fraction(sum(gaps), len(gaps))
    spread = sum((gap - mean) ** 2 for gap in gaps)
    cv = math.sqrt(spread / (len(gaps) - 1)) / float(mean) if len(gaps) >= 5 else None
    return float(mean / 10**6), float(spread / 10**12), cv


def model_gap(rows: list[Row]) -> dict[str, tuple[Any, ...]]:
    """model -> gaps, mean, sum of squared deviations."""
    found = {model: above_zero(times) for model, times in starts(rows, lambda r: r["model"]).items()}
    return {model: (len(gaps), *moments(gaps)[:2]) for model, gaps in found.items()}


def wide_bin(gap_us: int) -> int:
    """k with 10^(k/20) <= gap < 10^((k+1)/20), in seconds."""
    exact = Fraction(gap_us, 10**6) ** 20
    k = math.floor(math.log10(gap_us / 1e6) * 20)
    while Fraction(10) ** k > exact:
        k -= 1
    while Fraction(10) ** (k + 1) <= exact:
        k += 1
    return k


def model_gap_pair(rows: list[Row]) -> dict[tuple[str, int, int], int]:
    """(model, bin of the previous gap, bin) -> count."""
    counts: Counter[tuple[str, int, int]] = Counter()
    for model, times in starts(rows, lambda r: r["model"]).items():
        bins = [wide_bin(gap) for gap in above_zero(times)]
        counts.update((model, a, b) for a, b in pairwise(bins))
    return dict(counts)


def model_hour(rows: list[Row], clock_us: int) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(model, hour) -> requests, gaps, mean, sum of squared deviations, coefficient of variation."""

    def key(row: Row) -> tuple[str, int] | None:
        hour = (clock_us + row["arrival_us"]) // HOUR_US
        return None if row["model"] is None else (row["model"], hour)

    found = {}
    for at, times in starts(rows, key).items():
        gaps = above_zero(times)
        found[at] = (len(times), len(gaps), *moments(gaps))
    return found


def middle(gaps: list[int], q: float) -> float:
    """Exact quantile, seconds."""
    found = quantile([gap / 1e6 for gap in gaps], q)
    assert found is not None
    return found


def user_month_gap(rows: list[Row], clock_us: int) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(user, month) with at least 10 gaps -> gaps, exact p10, p25, p50, p75, p90."""

    def key(row: Row) -> tuple[str, int] | None:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock_us + row["arrival_us"])
        return None if row["user"] is None else (row["user"], (when.year - 1970) * 12 + when.month)

    found = {}
    for at, times in starts(rows, key).items():
        gaps = above_zero(times)
        if len(gaps) >= 10:
            found[at] = (len(gaps), *(middle(gaps, q) for q in (0.1, 0.25, 0.5, 0.75, 0.9)))
    return found


def pair(row: Row) -> tuple[str, str] | None:
    """User and model of a row."""
    return None if row["user"] is None or row["model"] is None else (row["user"], row["model"])


def pair_count(rows: list[Row]) -> dict[tuple[str, str], int]:
    """(user, model) -> requests."""
    return {at: len(times) for at, times in starts(rows, pair).items()}


def pair_gap(rows: list[Row], models: list[str]) -> dict[tuple[str, str], tuple[int, float | None]]:
    """(user, model) with gaps -> gaps, exact median of highlighted models."""
    found = {at: above_zero(times) for at, times in starts(rows, pair).items()}
    return {
        at: (len(gaps), middle(gaps, 0.5) if at[1] in models else None) for at, gaps in found.items() if gaps
    }


def pair_gap_hist(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Bins of all gaps of pairs with at least 10."""
    pooled: list[float] = []
    for times in starts(rows, pair).values():
        gaps = above_zero(times)
        if len(gaps) >= 10:
            pooled += [gap / 1e6 for gap in gaps]
    return log_rows(pooled)
