"""Figures and lines of a sweep from saved tables alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from servescope.report.charts import draw_all
from servescope.report.charts_cache import figures, models
from servescope.report.saved import Saved
from servescope.report.summary import summarise
from servescope.result import Table

SIZES = (100, 1_000, 10_000)
RATIOS = {"lru": (0.2, 0.4, 0.6), "fifo": (0.19, 0.45, 0.6), "arc": (0.1, 0.3, 0.6), "bound": (0.4, 0.6, 0.7)}


def cells(model: str = "*", **more: Any) -> list[dict[str, Any]]:
    rows = []
    for policy, ratios in RATIOS.items():
        for tokens, ratio, low, high in zip(SIZES, ratios, RATIOS["lru"], RATIOS["bound"], strict=True):
            row = {
                "policy": policy, "capacity_tokens": tokens, "capacity_bytes": None, "input_tokens": 1000,
                "token_hit_ratio": ratio, "request_hit_ratio": ratio / 2, "credit": "prefix", "model": model,
                "distance_to_bound": (ratio - low) / (high - low),
            }  # fmt: skip
            rows.append(row | more)
    return rows


def differences(model: str = "*") -> list[dict[str, Any]]:
    """FIFO ties with LRU at the first and last size, ARC at the last."""
    rows = []
    for policy in ("fifo", "arc"):
        for place, tokens in enumerate(SIZES):
            difference = RATIOS[policy][place] - RATIOS["lru"][place]
            tie = place == 2 or (policy == "fifo" and place == 0)
            rows.append(
                {
                    "policy_a": policy, "policy_b": "lru", "capacity_tokens": tokens, "model": model,
                    "metric": "token_hit_ratio", "difference": difference, "tie": tie, "groups": "user",
                    "difference_without_heaviest": difference, "tie_without_heaviest": place == 2,
                }
            )  # fmt: skip
    return rows


def saved(**tables: list[dict[str, Any]]) -> Saved:
    return Saved({name: Table(name, pa.Table.from_pylist(rows)) for name, rows in tables.items()})


def data_of(found: Saved, name: str) -> list[list[dict[str, Any]]]:
    """Values of every layer of a figure."""
    drawn = {item.name: item for item in draw_all(found)[0]}
    spec = drawn[name].drawing.chart.to_dict()
    return [layer["data"]["values"] for layer in spec.get("layer", [spec]) if "data" in layer]


def test_ties_are_shaded_from_lowest_to_highest() -> None:
    band, lines, bound = data_of(saved(cache=cells(), policy_differences=differences()), "token_hit_ratio")
    assert band == [
        {"x": 100, "low": 0.19, "high": 0.2},
        {"x": 1_000, "low": 0.4, "high": 0.4},
        {"x": 10_000, "low": 0.6, "high": 0.6},
    ]
    assert len(lines) == 9 and {row["series"] for row in lines} == {"lru", "fifo", "arc"}
    assert [row["y"] for row in bound] == list(RATIOS["bound"])


def test_bytes_make_the_axis_gib() -> None:
    rows = [{**row, "capacity_bytes": row["capacity_tokens"] * 2**20} for row in cells()]
    _, lines, _ = data_of(saved(cache=rows), "token_hit_ratio")
    assert lines[0]["x"] == 100 / 1024


def test_a_size_of_0_has_no_place_on_a_logarithmic_axis() -> None:
    none = [{**row, "capacity_tokens": 0} for row in cells()]
    reasons = {item.name: item.reason for item in draw_all(saved(cache=none))[1]}
    assert reasons["token_hit_ratio"] == "no capacity above 0 was swept"


def test_the_distance_needs_the_bound() -> None:
    without = [{**row, "distance_to_bound": None} for row in cells()]
    reasons = {item.name: item.reason for item in draw_all(saved(cache=without))[1]}
    assert "needs lru, bound" in reasons["bound_distance"]
    marks, lines = data_of(saved(cache=cells()), "bound_distance")
    assert {row["series"] for row in lines} == {"lru", "fifo", "arc"} and [m["y"] for m in marks] == [0, 1]
    deep = [{**row, "distance_to_bound": -3.0} if row["policy"] == "arc" else row for row in cells()]
    drawn = {item.name: item.drawing for item in draw_all(saved(cache=deep))[0]}
    assert drawn["bound_distance"].remark.startswith("Cut off below -100.0%")
    assert "lowest arc with -300.0%" in drawn["bound_distance"].says


def test_every_workload_has_its_figures() -> None:
    found = saved(cache=[*cells("a"), *cells("b")])
    assert models(found) == ["a", "b"]
    names = set(figures(found))
    assert {"token_hit_ratio", "token_hit_ratio_2", "lru_curve_2"} <= names
    assert figures(found)["token_hit_ratio_2"].title == "Token hit ratio, b"


def test_many_policies_leave_lru_and_say_how_many_are_not_drawn() -> None:
    rows = [{**row, "policy": f"p{k}"} for k in range(11) for row in cells() if row["policy"] == "fifo"]
    found = saved(cache=[*rows, *(row for row in cells() if row["policy"] == "lru")])
    drawn = {item.name: item for item in draw_all(found)[0]}["token_hit_ratio"].drawing
    assert "3 more policies are in the table" in drawn.remark
    _, lines = data_of(found, "token_hit_ratio")
    assert len({row["series"] for row in lines}) == 9 and "lru" in {row["series"] for row in lines}


def test_the_curve_is_steps_and_single_replays() -> None:
    curve = [
        {"policy": "lru", "capacity_tokens": 50 + at, "hit_tokens": at, "method": method, "model": "*"}
        for at, method in enumerate(["replay", *["reuse_distance"] * 2000])
    ]
    (values,) = data_of_curve(saved(cache=cells(), curve=curve))
    assert 500 <= len(values) <= 504
    assert values[-1] == {"x": 50, "y": 0.0, "series": "replay"}
    assert values[-2]["x"] == 2050


def data_of_curve(found: Saved) -> list[list[dict[str, Any]]]:
    drawn = {item.name: item for item in draw_all(found)[0]}["lru_curve"]
    return [drawn.drawing.chart.to_dict()["data"]["values"]]


def test_lines_count_verdicts() -> None:
    lines = dict(summarise(saved(cache=cells(), policy_differences=differences())))
    assert lines["Differences"] == (
        "of 6 with LRU in token hit ratio, 1 are above it, 2 below, 3 are ties; without the heaviest user 1 "
        "read differently."
    )
    assert lines["Policies"].startswith(
        "token hit ratio at 1,000 tokens: fifo 45.0%, lru 40.0%, arc 30.0%, bound"
    )
    alone = dict(summarise(saved(cache=cells())))
    assert alone["Differences"] == "none: it takes lru and another policy."
