"""The load and value tables in plain Python, by the row filters of the study."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.reference.histogram import log_rows, ratio_rows

Row = dict[str, Any]
GROUPS = ("chat", "chat_stream", "completion", "completion_stream")
HOUR_US = 3_600_000_000


class Filters:
    """Row filters; a condition on a column that the source lacks counts as true."""

    def __init__(self, has: set[str]) -> None:
        self.has = has

    def above(self, row: Row, name: str) -> bool:
        return name not in self.has or (row[name] is not None and row[name] > 0)

    def done(self, row: Row) -> bool:
        return "completed_us" not in self.has or row["completed_us"] is not None

    def tokens(self, row: Row) -> bool:
        return self.above(row, "input_tokens") and self.done(row)

    def shape(self, row: Row) -> bool:
        return self.above(row, "input_tokens") and self.above(row, "output_tokens")

    def latency(self, row: Row) -> bool:
        length = duration(row)
        good = self.above(row, "ttft_s") and self.done(row)
        if "completed_us" in self.has:
            good = good and length is not None and length > 0
            if "ttft_s" in self.has:
                good = good and row["ttft_s"] <= length
        return good


def duration(row: Row) -> float | None:
    """Seconds from arrival to completion."""
    return None if row["completed_us"] is None else (row["completed_us"] - row["arrival_us"]) / 1e6


def load_hour(rows: list[Row], clock_us: int, has: set[str]) -> dict[tuple[int, str], tuple[int, ...]]:
    """(hour, group) -> requests, completed, input, output."""
    cells: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        group = row["endpoint"] if row["endpoint"] in GROUPS else "other"
        cell = cells[(clock_us + row["arrival_us"]) // HOUR_US, group]
        cell[0] += 1
        if Filters(has).done(row):
            cell[1] += 1
            cell[2] += row["input_tokens"] or 0
            cell[3] += row["output_tokens"] or 0
    return {key: tuple(cell) for key, cell in cells.items()}


def model_day(rows: list[Row], clock_us: int, has: set[str]) -> dict[tuple[str | None, int], tuple[int, ...]]:
    """(model, day) -> requests, input, output."""
    cells: dict[tuple[str | None, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        if row["model"] is None and "model" in has:
            continue
        cell = cells[row["model"], (clock_us + row["arrival_us"]) // (24 * HOUR_US)]
        cell[0] += 1
        cell[1] += row["input_tokens"] or 0
        cell[2] += row["output_tokens"] or 0
    return {key: tuple(cell) for key, cell in cells.items()}


def month_shape(
    rows: list[Row], clock_us: int, has: set[str]
) -> dict[tuple[int, str], list[tuple[Any, ...]]]:
    """(month, metric) -> bins."""
    values: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in rows:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock_us + row["arrival_us"])
        month = (when.year - 1970) * 12 + when.month
        for metric, name in (("it", "input_tokens"), ("ot", "output_tokens")):
            if Filters(has).shape(row) and name in has:
                values[month, metric].append(row[name])
    return {key: log_rows(own) for key, own in values.items()}


def highlights(rows: list[Row], names: list[str]) -> list[str]:
    """The three models with the most requests, ties by code."""
    counts = Counter(row["model"] for row in rows)
    return sorted(names, key=lambda name: (-counts[name], names.index(name)))[:3]


def value_hist(
    rows: list[Row], has: set[str], models: list[str]
) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """(metric, series) -> bins."""
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    ratios: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
    filters = Filters(has)
    for row in rows:
        series = ["global", *([row["model"]] if row["model"] in models else [])]
        for name in series:
            for metric, value in _logs(row, filters).items():
                logs[metric, name].append(value)
            for metric, value in _ratios(row, filters).items():
                ratios[metric, name].append(value)
                short, long = row["input_tokens"] or 0, row["input_tokens"] or 0
                if metric == "hit" and name == "global" and short < 1000:
                    ratios[metric, "lt1k"].append(value)
                if metric == "hit" and name == "global" and long >= 8000:
                    ratios[metric, "ge8k"].append(value)
    bins = {key: log_rows(values) for key, values in logs.items()}
    return bins | {key: ratio_rows(values) for key, values in ratios.items()}


def _logs(row: Row, filters: Filters) -> dict[str, float]:
    it, ot, length, ttft = row["input_tokens"], row["output_tokens"], duration(row), row["ttft_s"]
    found: dict[str, float] = {}
    if filters.tokens(row):
        found |= {} if it is None else {"it": it}
        found |= {} if ot is None else {"ot": ot}
        if it is not None and ot is not None and ot > 0:
            found["ratio"] = ot / it
    if filters.latency(row):
        found |= {} if length is None else {"e2e": length}
        found |= {} if ttft is None else {"ttft": ttft}
        if length is not None and ttft is not None:
            found["decode"] = length - ttft
    return found


def _ratios(row: Row, filters: Filters) -> dict[str, Fraction]:
    it, ct, length, ttft = row["input_tokens"], row["cached_tokens"], duration(row), row["ttft_s"]
    found: dict[str, Fraction] = {}
    if filters.latency(row) and length is not None and ttft is not None and length < 300:
        found["prefill_frac"] = Fraction(ttft / length)
    if it is not None and it > 0 and ct is not None:
        found["hit"] = min(max(Fraction(ct, it), Fraction(0)), Fraction(1))
        if ct >= 0:
            found["hit_pos"] = found["hit"]
    return found
