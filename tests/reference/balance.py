"""The cell, key and balance tables in plain Python, by the row filters of the study."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import Any

from tests.reference.chutes import Filters, Row, duration
from tests.reference.histogram import log_rows

HOUR_US = 3_600_000_000
Bin = tuple[float, float, int]


def shape_cells(rows: list[Row]) -> dict[tuple[int, int, str], list[Bin]]:
    """(it_low, ot_low, metric) -> bins."""
    values: dict[tuple[int, int, str], list[float]] = defaultdict(list)
    for row in rows:
        it, ot, ttft = row["input_tokens"], row["output_tokens"], row["ttft_s"]
        if it is None or ot is None or it <= 0 or ot <= 0:
            continue
        cell = (it // 2000 * 2000, ot // 200 * 200)
        length = duration(row)
        if length is not None and 0 < length < 300:
            values[*cell, "duration"].append(length)
        if ttft is not None and 0 < ttft < 300:
            values[*cell, "ttft"].append(ttft)
    return {key: log_rows(own) for key, own in values.items()}


def hit_cells(rows: list[Row]) -> dict[tuple[int, float], list[Bin]]:
    """(it_low, hit_tenth) -> bins."""
    values: dict[tuple[int, float], list[float]] = defaultdict(list)
    for row in rows:
        it, ct, ttft = row["input_tokens"], row["cached_tokens"], row["ttft_s"]
        if ttft is None or not 0 < ttft < 300 or it is None or it <= 0 or ct is None or ct < 0:
            continue
        tenth = next(k for k in range(10, -1, -1) if 10 * min(ct, it) >= k * it)
        values[it // 2000 * 2000, tenth / 10].append(ttft)
    return {key: log_rows(own) for key, own in values.items()}


def key_stats(rows: list[Row], column: str, has: set[str]) -> dict[str, dict[str, Any]]:
    """Key -> n_shape, exact medians, n_hit, exact hit sum, first arrival, least cohort."""
    found: dict[str, dict[str, Any]] = {}
    for key in {row[column] for row in rows} - {None}:
        own = [row for row in rows if row[column] == key]
        shape = [row for row in own if Filters(has).shape(row)]
        hits = [r for r in own if r["input_tokens"] is not None and r["cached_tokens"] is not None]
        hits = [row for row in hits if row["input_tokens"] > 0]
        lengths = {name: [r[f"{name}_tokens"] for r in shape] for name in ("input", "output")}
        found[key] = {
            "n_shape": len(shape),
            "it_median": median(lengths["input"]) if shape and "input_tokens" in has else None,
            "ot_median": median(lengths["output"]) if shape and "output_tokens" in has else None,
            "n_hit": len(hits),
            "hit_sum": sum(min(max(r["cached_tokens"] / r["input_tokens"], 0.0), 1.0) for r in hits),
            "first": own[0]["arrival_us"],
            "cohort": min((r["cohort"] for r in own if r["cohort"] is not None), default=None),
        }
    return found


class Balance:
    """The balance tables of chosen models in a half-open window of arrivals."""

    def __init__(
        self, rows: list[Row], clock_us: int, models: list[str], window: tuple[float, float]
    ) -> None:
        self.rows = [r for r in rows if r["model"] in models and window[0] <= r["arrival_us"] < window[1]]
        self.clock_us = clock_us

    def _at(self, row: Row, length_us: int) -> int:
        return (self.clock_us + int(row["arrival_us"])) // length_us

    def instance_minute(self) -> dict[tuple[str, str, int], tuple[int, int, int]]:
        """(model, instance, minute) -> requests, tokens, cached."""
        cells: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in self.rows:
            if row["instance"] is None:
                continue
            cell = cells[row["model"], row["instance"], self._at(row, 60_000_000)]
            cell[0] += 1
            if row["input_tokens"] is not None and row["output_tokens"] is not None:
                cell[1] += row["input_tokens"] + row["output_tokens"]
            cell[2] += row["cached_tokens"] or 0
        return {key: (a, b, c) for key, (a, b, c) in cells.items()}

    def load_points(self) -> Counter[tuple[str, str, int, int, float]]:
        """(model, metric, load, tokens, latency) of every request, from a pair of loops."""
        loads: Counter[Any] = Counter()
        for row in self.rows:
            if None not in (row["instance"], row["input_tokens"], row["output_tokens"]):
                key = row["model"], row["instance"], self._at(row, 1_000_000)
                loads[key] += row["input_tokens"] + row["output_tokens"]
        points: Counter[tuple[str, str, int, int, float]] = Counter()
        for row in self.rows:
            load = loads[row["model"], row["instance"], self._at(row, 1_000_000)]
            it, ot, ttft, length = row["input_tokens"], row["output_tokens"], row["ttft_s"], duration(row)
            if row["instance"] is None or load <= 0 or ttft is None:
                continue
            if it is not None and it > 0:
                points[row["model"], "ttft", load, it, ttft] += 1
            if ot is not None and ot > 0 and length is not None:
                points[row["model"], "decode", load, ot, max(length - ttft, 0.0)] += 1
        return points

    def _sums(self, *extra: str) -> dict[Any, tuple[int, int, int]]:
        cells: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in self.rows:
            if row["user"] is not None:
                cell = cells[
                    row["model"], row["user"], self._at(row, HOUR_US), *(row[name] for name in extra)
                ]
                cell[0] += 1
                cell[1] += row["input_tokens"] or 0
                cell[2] += row["cached_tokens"] or 0
        return {key: (a, b, c) for key, (a, b, c) in cells.items()}

    def user_hour(self) -> dict[tuple[str, str, int], tuple[int, int, int]]:
        """(model, user, hour) -> requests, input, cached."""
        return self._sums()

    def user_hour_instance(self) -> dict[tuple[str, str, int, str | None], tuple[int, int, int]]:
        """(model, user, hour, instance) -> requests, input, cached, of picked hours."""
        best: dict[tuple[str, str], int] = {}
        hours = self.user_hour()
        for model, user, hour in sorted(hours, key=lambda key: key[2]):
            if hours[model, user, hour][0] > hours.get((model, user, best.get((model, user), -1)), (0,))[0]:
                best[model, user] = hour
        picked = {
            (*key, hour)
            for key, hour in best.items()
            if hours[(*key, hour)][0] >= 200
            and hours[(*key, hour)][1]
            and hours[(*key, hour)][2] / hours[(*key, hour)][1] >= 0.4
        }
        return {key: sums for key, sums in self._sums("instance").items() if key[:3] in picked}
