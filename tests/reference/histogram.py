"""Bins and quantiles in plain Python, by exact arithmetic."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def log_bin(value: float) -> int | None:
    """k of the bin [10^(k/100), 10^((k + 1)/100)) of a value; None for zero."""
    if value <= 0:
        return None
    exact = Fraction(repr(value)) ** 100  # the decimal that is meant: 0.1 lies at an edge, its double below
    k = floor(100 * log10(value)) - 2
    while exact >= Fraction(10) ** (k + 1):
        k += 1
    return k


def log_rows(values: Iterable[float]) -> list[tuple[float, float, int]]:
    """bin_low, bin_high, count of the filled bins, edges to 12 digits."""
    counts = Counter(log_bin(value) for value in values)
    zeros = [(0.0, 0.0, counts.pop(None))] if None in counts else []
    return zeros + [(edge(k), edge(k + 1), counts[k]) for k in sorted(k for k in counts if k is not None)]


def edge(k: int) -> float:
    """10^(k/100) to 12 digits."""
    return float(f"{10 ** (k / 100):.12g}")


def ratio_rows(values: Iterable[Fraction]) -> list[tuple[float, float, int]]:
    """The same for ratios: 1,000 bins, exact zeros and ones apart."""
    counts: Counter[tuple[float, float]] = Counter()
    for value in values:
        if value <= 0 or value >= 1:
            exact = 0.0 if value <= 0 else 1.0
            counts[exact, exact] += 1
        else:
            k = floor(value * 1000)
            counts[k / 1000, (k + 1) / 1000] += 1
    return [(*bins, count) for bins, count in sorted(counts.items())]


def quantile(values: Iterable[float], q: float) -> float | None:
    """Exact quantile, linear between neighbours; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = (len(ordered) - 1) * q
    low = floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
