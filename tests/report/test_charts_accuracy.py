"""Figures of a rule's accuracy: what they show, and when they are not drawn."""

from __future__ import annotations

from typing import Any

from servescope.report.charts import draw_figures
from servescope.report.charts_accuracy import FIGURES
from servescope.report.saved import Saved
from servescope.sessions.accuracy import accuracy
from tests.sessions.test_accuracy import INTERLEAVED
from tests.traces import build


def saved(**options: Any) -> Saved:
    """Results of the small trace with two chains that take turns."""
    return Saved({table.name: table for table in accuracy(build(INTERLEAVED), **options)})


def test_look_backs_and_users() -> None:
    drawn, skipped = draw_figures(FIGURES, saved(look_backs=(1, 2), users=(1, 64)))
    found = {one.name: one for one in drawn}
    assert set(found) >= {"accuracy_look_back", "accuracy_users", "accuracy_turn"}
    by_look_back = found["accuracy_look_back"].drawing
    assert "a look-back of 1, 0.0% are right" in by_look_back.says
    assert "a look-back of 2, 100.0% are right" in by_look_back.says
    points = by_look_back.chart.to_dict()["data"]["values"]
    assert [(row["x"], row["y"]) for row in points] == [(1, 0.0), (2, 1.0)] * 2
    assert found["accuracy_users"].drawing.says.startswith("Recall is 100.0% with 1 and 100.0% with 64 users")
    assert {one.name for one in skipped} | set(found) == set(FIGURES)


def test_one_value_is_no_line() -> None:
    drawn, skipped = draw_figures(FIGURES, saved(look_backs=(2,)))
    why = {one.name: one.reason for one in skipped}
    assert "fewer than two look-backs" in why["accuracy_look_back"]
    assert "one bin" in why["accuracy_gap_s"]
    assert "accuracy_users" in why
    assert {one.name for one in drawn} == {"accuracy_turn", "accuracy_concurrency"}
