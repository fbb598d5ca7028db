"""Figures of a sweep of prefix blocks: their numbers are those of the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from servescope.report.charts import FIGURES, draw_all
from servescope.report.charts_blocks import CURVE_POINTS, curve_points, knee
from servescope.report.figure import number, percent
from servescope.result import Table
from tests.report import block_sample, sample

if TYPE_CHECKING:
    from servescope.report.figure import Drawing
    from servescope.report.saved import Saved

NAMES = [
    "block_hit_curve", "block_policies", "clairvoyance_distance", "recomputed", "reuse_by_type",
    "hits_by_position", "hits_by_category", "top_prefixes", "logged_beside", "active_kv",
    "reuse_times", "next_turns",
]  # fmt: skip


def drawn(saved: Saved, name: str) -> tuple[Drawing, list[list[dict[str, Any]]]]:
    """A drawing and the values of its layers."""
    drawing = {item.name: item for item in draw_all(saved)[0]}[name].drawing
    spec = drawing.chart.to_dict()
    return drawing, [layer["data"]["values"] for layer in spec.get("layer", [spec]) if "data" in layer]


def reasons(saved: Saved) -> dict[str, str]:
    return {item.name: item.reason for item in draw_all(saved)[1]}


def only(saved: Saved, name: str, keep: Any) -> Saved:
    """The results with those rows of one table alone."""
    rows = [row for row in saved.rows(name) if keep(row)]
    data = saved.arrow(name).schema.empty_table()
    data = type(data).from_pylist(rows, data.schema)
    return replace(saved, tables={**saved.tables, name: Table(name, data)})


def without(saved: Saved, name: str) -> Saved:
    return replace(saved, tables={key: table for key, table in saved.tables.items() if key != name})


@pytest.mark.parametrize(
    ("points", "bend"),
    [
        ([(1, 0.0), (10, 0.9), (100, 1.0)], (10, 0.9)),
        ([(1, 0.0), (10, 0.5), (100, 1.0)], None),  # a straight line
        ([(1, 0.0), (10, 0.1), (100, 1.0)], None),  # bends the other way
        ([(2, 0.1), (4, 0.1), (8, 0.6), (16, 0.65), (1024, 0.7)], (8, 0.6)),
        ([(1, 0.3), (10, 0.3), (100, 0.3)], None),  # nothing rises
        ([(5, 0.1), (50, 0.9)], None),
        ([], None),
    ],
)
def test_the_knee_stands_highest_above_the_chord(
    points: list[tuple[float, float]], bend: tuple[float, float] | None
) -> None:
    assert knee(points) == bend


def test_every_figure_is_drawn_where_the_trace_states_all() -> None:
    found, skipped = draw_all(block_sample.saved(cached=0.5))
    assert [item.name for item in found] == NAMES
    assert skipped == []
    for item in found:
        assert item.figure.definition.endswith(".") and item.figure.limits.endswith(".")
        assert item.drawing.says.endswith(".") and any(c.isdigit() for c in item.drawing.says)


def test_the_curve_has_the_numbers_of_its_table_and_meets_the_replays() -> None:
    saved = block_sample.saved()
    _, (line, dots, best, rule) = drawn(saved, "block_hit_curve")
    total = saved.rows("cache")[0]["block_references"]
    curve = {row["capacity_tokens"]: row["block_hits"] for row in saved.rows("curve")}
    assert len(line) > 50
    assert all(point["y"] == round(curve[point["x"]] / total, 6) for point in line)
    for policy in ("fifo", "lru", "workload_aware"):
        rows = saved.rows("cache", policy=policy)
        assert [dot["y"] for dot in dots if dot["series"] == policy] == [
            round(row["block_hit_ratio"], 6) for row in rows
        ]
    assert [dot["y"] for dot in best] == [
        row["block_hit_ratio"] for row in saved.rows("cache", policy="belady_bypass")
    ]
    for dot in dots:  # LRU's replays lie on its own curve
        below = max(point["x"] for point in line if point["x"] <= dot["x"])
        at_most = next(point["y"] for point in line if point["x"] == below)
        assert dot["series"] != "lru" or dot["y"] == at_most
    assert rule == [{"x": knee(curve_points(saved, "*")[0])[0]}]  # type: ignore[index]


def test_a_model_makes_the_axis_gib() -> None:
    tokens, _ = curve_points(block_sample.saved(), "*")
    gib, title = curve_points(block_sample.saved(bytes_per_token=2**20), "*")
    assert title == "capacity, GiB"
    assert [x * 1024 for x, _ in gib] == pytest.approx([x for x, _ in tokens])
    assert [y for _, y in gib] == [y for _, y in tokens]


def test_a_long_curve_is_thinned_evenly_and_keeps_its_ends() -> None:
    saved = block_sample.saved()
    rows = [
        {"policy": "lru", "capacity_blocks": at, "capacity_tokens": 16 * at, "block_hits": at, "model": "*"}
        for at in range(200_000)
    ]
    data = type(saved.arrow("curve")).from_pylist(rows)
    points, _ = curve_points(replace(saved, tables={**saved.tables, "curve": Table("curve", data)}), "*")
    assert CURVE_POINTS / 2 < len(points) <= CURVE_POINTS
    assert points[0][0] == 16 and points[-1][0] == 16 * 199_999
    assert [x for x, _ in points] == sorted({x for x, _ in points})


def test_policies_are_drawn_as_differences_to_lru() -> None:
    saved = block_sample.saved()
    drawing, (_, found) = drawn(saved, "block_policies")
    own = {row["capacity_tokens"]: row["block_hit_ratio"] for row in saved.rows("cache", policy="lru")}
    for row in found:
        there = saved.row("cache", policy=row["series"], capacity_tokens=row["x"])
        assert row["y"] == there["block_hit_ratio"] - own[row["x"]]
    assert {row["series"] for row in found} == {"fifo", "workload_aware"}
    assert percent(max(row["y"] for row in found)) in drawing.says


def test_evictions_cost_what_the_categories_add_up_to() -> None:
    saved = block_sample.saved()
    _, (found,) = drawn(saved, "recomputed")
    for row in found:
        kinds = [
            kind
            for kind in saved.rows("cache_by_category", policy=row["series"])
            if kind["capacity_blocks"] * 16 == row["x"]
        ]
        lost, tokens = (sum(kind[name] for kind in kinds) for name in ("recomputed_tokens", "input_tokens"))
        assert row["y"] == round(lost / tokens, 6)
    least = {row["series"]: row["y"] for row in found if row["x"] == 16_000}
    assert set(least.values()) == {0.0}  # everything fits


def test_reuse_is_split_by_type_as_in_the_table() -> None:
    drawing, (found,) = drawn(block_sample.saved(), "reuse_by_type")
    by_type = {(row["type"], row["series"]): row["y"] for row in found}
    assert by_type["api", "same session"] == 0.0 and by_type["api", "across sessions"] > 0.7
    assert by_type["chat", "across sessions"] == 0.0 and by_type["chat", "same session"] > 0.7
    assert "api: cross-request templates" in drawing.says and "chat: session affinity" in drawing.says


def test_places_and_categories_are_lrus_at_the_middle_capacity() -> None:
    saved = block_sample.saved()
    for name, table in (("hits_by_position", "cache_by_position"), ("hits_by_category", "cache_by_category")):
        drawing, (found,) = drawn(saved, name)
        rows = saved.rows(table, policy="lru", capacity_blocks=160)
        assert [row["y"] for row in found] == [row["block_hit_ratio"] for row in rows]
        assert drawing.remark == "At 160 blocks."


def test_prefixes_are_those_of_the_table() -> None:
    saved = block_sample.saved()
    _, (found,) = drawn(saved, "top_prefixes")
    rows = saved.rows("top_prefixes")[: len(found)]
    assert [row["y"] for row in found] == [row["share_of_hit_blocks"] for row in rows]
    assert found[0]["uses"] == rows[0]["uses"] and f"{rows[0]['depth_blocks']} blocks" in found[0]["name"]


def test_logged_hits_stand_beside_predicted_ones_by_hour() -> None:
    saved = block_sample.saved(cached=0.5)
    drawing, (found,) = drawn(saved, "logged_beside")
    logged = [row["y"] for row in found if row["series"] == "logged"]
    assert logged == pytest.approx([0.5, 0.5], abs=0.01)
    assert [row["x"] for row in found] == [0, 0, 1, 1]
    whole = saved.row("trust", dimension="all", prediction="unlimited, engine")
    assert percent(whole["predicted_ratio"]) in drawing.says


def test_running_requests_hold_what_the_table_says() -> None:
    saved = block_sample.saved()
    _, (found,) = drawn(saved, "active_kv")
    greatest = [row["y"] for row in found if row["series"] == "greatest"]
    assert max(greatest) <= max(row["active_tokens_max"] for row in saved.rows("active_kv"))
    assert max(greatest) > 0


def test_reuse_times_add_up_by_category() -> None:
    saved = block_sample.saved()
    drawing, (found,) = drawn(saved, "reuse_times")
    for name in {row["series"] for row in found}:
        rows = saved.rows("reuse_time", category=name)
        total = sum(row["count"] for row in rows)
        for point in (row for row in found if row["series"] == name):
            within = sum(row["count"] for row in rows if row["bin_high"] <= point["x"] * 1.006)
            assert point["y"] == round(within / total, 5)
        assert [row["y"] for row in found if row["series"] == name][-1] == 1.0
    first = [row for row in found if row["series"] == found[0]["series"]]
    half = next(row["x"] for row in first if row["y"] >= 0.5)
    assert drawing.says == (
        f"Half of the reuses after {found[0]['series']} come within {number(half)} seconds."
    )


def test_follow_ups_are_those_of_the_table() -> None:
    saved = block_sample.saved()
    drawing, (found,) = drawn(saved, "next_turns")
    assert found
    for point in found:
        row = saved.row("next_turn_probability", request_type=point["series"], turn=point["x"])
        assert point["y"] == row["probability"] and point["requests"] == row["requests"]
    chat = saved.row("next_turn_probability", request_type="chat", turn=1)
    assert drawing.says == (
        f"Of the requests of chat at turn 1, {percent(chat['probability'])} are followed up."
    )
    none = only(saved, "next_turn_probability", lambda row: row["turn"] > 20)
    assert reasons(none)["next_turns"] == "table next_turn_probability has no rows"
    assert all(point["requests"] >= 10 for point in found)


def test_what_cannot_be_drawn_says_why() -> None:
    saved = block_sample.saved()
    assert reasons(saved) == {"logged_beside": "the trace states no cached tokens"}
    alone = only(saved, "cache", lambda row: row["policy"] == "fifo")
    found = reasons(alone)
    assert found["block_policies"] == "it needs lru and another policy in one sweep"
    assert found["hits_by_position"] == "it needs lru at a capacity above 0"
    alone = only(saved, "cache", lambda row: row["policy"] == "lru")
    assert "needs lru, belady_bypass" in reasons(alone)["clairvoyance_distance"]
    assert reasons(without(saved, "top_prefixes"))["top_prefixes"] == "no table top_prefixes in this result"
    nothing = only(saved, "curve", lambda row: row["capacity_blocks"] == 0)
    assert reasons(nothing)["block_hit_curve"] == "no block was counted"


def test_a_report_has_these_figures_after_its_own() -> None:
    cached = block_sample.saved()
    both = sample.saved()
    both = replace(
        both, tables={**both.tables, **cached.tables}, document={**both.document, "command": "report"}
    )
    assert [item.name for item in draw_all(both)[0]][: len(FIGURES)] == list(FIGURES)
    assert {item.name for item in draw_all(both)[0]} - set(FIGURES) == set(NAMES) - {"logged_beside"}


def test_a_sample_has_its_curve_error_and_knee() -> None:
    saved = block_sample.saved(sample=1.0, policy=(), capacity=())
    drawing, (band, line, *rule) = drawn(saved, "sampled_hit_curve")
    rows = saved.rows("curve_sample")
    assert [row["y"] for row in line] == [row["block_hit_ratio"] for row in rows]
    assert all(row["low"] <= row["y"] <= row["high"] for row in band)
    bend = knee([(row["x"], row["y"]) for row in line])
    assert rule == ([[{"x": bend[0]}]] if bend else [])
    assert "100.0% of the subtrees" in drawing.remark
    in_bytes = block_sample.saved(sample=1.0, policy=(), capacity=(), bytes_per_token=2**30)
    assert [row["x"] for row in drawn(in_bytes, "sampled_hit_curve")[1][1]] == [row["x"] for row in line]
