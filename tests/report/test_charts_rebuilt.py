"""Figures of rebuilt sessions, from tables made by hand and from a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import servescope as ss
from servescope.report.charts import draw_all
from servescope.report.charts_rebuilt import FIGURES
from servescope.report.figure import NotDrawn
from servescope.report.saved import Saved, read_saved, saved_of
from servescope.report.summary import sessions_line
from servescope.result import Table
from tests.sessions.test_reconstruct import drawn as random_trace
from tests.traces import build

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
BINS = [(-3.0, -2.0, 2), (0.0, 0.0, 1), (1.0, 2.0, 4), (8.0, 9.0, 3), (None, None, 5)]


def saved(**changed: list[Row]) -> Saved:
    rows: dict[str, list[Row]] = {
        "rebuilt_summary": [
            {"sessions": 9, "turns_mean": 2.5, "single_turn_fraction": 0.25, "prefix_fraction": 0.5}
        ],
        "rebuilt_session_turns": [{"turns": 1, "sessions": 6}, {"turns": 4, "sessions": 3}],
        "rebuilt_prompt_growth": [
            {"turn": turn, "bin_low": low, "bin_high": high, "turns": n}
            for turn in (2, 3, 12)
            for low, high, n in BINS
        ],
        "rebuilt_think_time": [{"bin_low": low, "bin_high": high, "turns": n} for low, high, n in BINS],
        "rebuilt_link_ambiguity": [
            {"candidates": 1, "turns": 6, "tied_turns": 0},
            {"candidates": 2, "turns": 4, "tied_turns": 1},
        ],
        **changed,
    }
    return saved_of({name: Table(name, pa.Table.from_pylist(held)) for name, held in rows.items()}, {})


def points(name: str, held: Saved) -> list[Row]:
    return FIGURES[name].draw(held).chart.to_dict()["data"]["values"]


def test_all_figures_are_drawn_from_their_tables() -> None:
    names = [item.name for item in draw_all(saved())[0]]
    assert names == list(FIGURES)
    assert not set(FIGURES) & {item.name for item in draw_all(Saved())[1]}


def test_turns_are_shares_of_sessions() -> None:
    assert [(row["x"], row["y"]) for row in points("rebuilt_turns", saved())] == [(1, 1.0), (4, 0.33333)]


def test_growth_is_told_apart_by_turn_and_leaves_unknown_out() -> None:
    rows = points("rebuilt_growth", saved())
    assert {row["series"] for row in rows} == {"turn 2", "turns 3 to 5", "turns from 11"}
    assert [row["y"] for row in rows if row["series"] == "turn 2"] == [0.7, 1.0]


def test_turns_before_the_parents_end_count_in_think_time() -> None:
    drawing = FIGURES["rebuilt_think_time"].draw(saved())
    rows = drawing.chart.to_dict()["data"]["values"]
    assert [(row["x"], row["y"]) for row in rows] == [(2.0, 0.7), (9.0, 1.0)]
    assert "20.0% begin before it" in drawing.says
    assert "5 turns" in drawing.remark


def test_ambiguity_shows_ties() -> None:
    drawing = FIGURES["rebuilt_ambiguity"].draw(saved())
    rows = drawing.chart.to_dict()["data"]["values"]
    assert [(row["x"], row["y"]) for row in rows] == [("1", 0.6), ("2", 0.3), ("2", 0.1)]
    assert "60.0% had one candidate" in drawing.says and "10.0% the best fit was shared" in drawing.says


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("rebuilt_growth", [{"turn": 2, "bin_low": None, "bin_high": None, "turns": 1}]),
        ("rebuilt_think_time", [{"bin_low": None, "bin_high": None, "turns": 3}]),
        ("rebuilt_think_time", [{"bin_low": -2.0, "bin_high": -1.0, "turns": 3}]),
        ("rebuilt_link_ambiguity", [{"candidates": 1, "turns": 0, "tied_turns": 0}]),
    ],
)
def test_what_cannot_be_drawn_says_why(name: str, rows: list[Row]) -> None:
    table = {"rebuilt_growth": "rebuilt_prompt_growth"}.get(name, name)
    figure = {"rebuilt_link_ambiguity": "rebuilt_ambiguity"}.get(name, name)
    with pytest.raises(NotDrawn, match=r"request|end|turn"):
        FIGURES[figure].draw(saved(**{table: rows}))


def test_the_line_on_sessions_says_that_they_are_rebuilt() -> None:
    assert "rebuilt from users" in sessions_line(saved()) and "9 sessions" in sessions_line(saved())


def test_a_report_rebuilds_sessions_where_there_are_users(tmp_path: Path) -> None:
    trace = random_trace(7, held=("user", "model"))
    result = ss.report(trace, out=tmp_path / "report", figures=False)
    held = read_saved(tmp_path / "report")
    assert held.row("rebuilt_summary") == ss.sessions(trace)["summary"].rows()[0]
    assert any(row["view"] == "sessions" and "guesses" in row["limit"] for row in held.rows("limits"))
    assert any("rebuilt" in note for note in result.notes)
    plain = ss.report(random_trace(7, held=("model",)), out=tmp_path / "plain", figures=False)
    assert "rebuilt_summary" not in plain.tables
    uncounted = build({"arrival_us": [0, 1], "user": ["u", "u"], "input_tokens": [1, 5]})
    bare = ss.report(uncounted, out=tmp_path / "bare", figures=False)
    assert "rebuilt_summary" not in bare.tables
    assert "sessions are not rebuilt: the source has no output_tokens" in bare.notes
