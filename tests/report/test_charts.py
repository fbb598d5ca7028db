"""Figures: their numbers against ones worked out by hand, and the reasons for those not drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from servescope.report.charts import FIGURES, draw_all
from servescope.report.charts_lengths import exceedance, quantile
from servescope.report.charts_load import join_windows
from servescope.report.figure import POINTS, Drawing, ticks, time_unit
from servescope.report.saved import Saved, printable
from servescope.report.theme import DARK, LIGHT, OTHERS
from servescope.result import Table
from tests.report import sample

MODEL_DAY = pa.schema([("model", pa.string()), ("day", pa.int64()), ("requests", pa.int64())])
NAME = printable(sample.HOSTILE)


def _draw(name: str, saved: Saved | None = None) -> tuple[Drawing, list[dict[str, Any]]]:
    drawing = FIGURES[name].draw(saved or sample.saved())
    return drawing, drawing.chart.to_dict()["data"]["values"]


def _reasons(saved: Saved) -> dict[str, str]:
    return {item.name: item.reason for item in draw_all(saved)[1]}


def test_every_figure_is_drawn_from_the_full_sample() -> None:
    drawn, skipped = draw_all(sample.saved())
    assert [item.name for item in drawn] == list(FIGURES)
    assert skipped == []


def test_nothing_is_drawn_from_nothing_and_every_reason_is_given() -> None:
    drawn, skipped = draw_all(Saved())
    assert drawn == []
    assert {item.name for item in skipped} == set(FIGURES)
    assert all(item.reason.startswith("no table ") for item in skipped)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_words_limits_and_a_bounded_number_of_points(name: str) -> None:
    figure = FIGURES[name]
    assert figure.definition.endswith(".") and figure.limits.endswith(".")
    drawing, rows = _draw(name)
    assert drawing.says.endswith(".") and any(c.isdigit() for c in drawing.says)
    assert 0 < len(rows) <= POINTS + 20
    assert drawing.chart.to_dict()["width"] == "container"


def test_arrivals_are_per_second_without_the_cut_window() -> None:
    _, rows = _draw("arrivals_10s")
    total = [row for row in rows if row["series"] == "all requests"]
    assert len(total) == 239 + 1  # the last of 240 windows is cut; a step line repeats its last value
    assert [row["value"] for row in total[:8]] == [0.6] * 6 + [0.3] * 2
    assert total[-1] == {"t": round(2390 / 60, 4), "series": "all requests", "k": 0, "value": 0.3}
    assert {row["series"] for row in rows} == {"all requests", "text", NAME}


def test_long_traces_are_drawn_in_joined_windows_and_say_so() -> None:
    rate = [
        {"request_type": "*", "window_s": 10.0, "start_s": 10.0 * i, "requests": i % 3, "complete": True}
        for i in range(3 * POINTS)
    ]
    drawing, rows = _draw("arrivals_10s", sample.saved(rate=rate, type_summary=[]))
    assert len(rows) == POINTS + 1
    assert {row["value"] for row in rows} == {0.1}
    assert {row["high"] for row in rows} == {0.2}
    assert "windows of 30 s, each the mean of 3 windows of 10 s" in drawing.remark
    assert "from 0 to 0.2" in drawing.says  # the words are those of the windows themselves


def test_joined_windows_are_means_and_the_last_may_be_short() -> None:
    assert join_windows(np.array([1.0, 3.0, 5.0]), 2).tolist() == [2.0, 5.0]


def test_arriving_tokens_are_stacked_by_type_per_second() -> None:
    drawing, rows = _draw("input_tokens_per_s")
    first = {row["series"]: row["value"] for row in rows if row["t"] == 0}
    assert first == {"text": 320.0, NAME: 160.0}
    assert "from 420 to 480" in drawing.says


def test_types_beyond_the_colours_are_gathered() -> None:
    names = [f"t{i:02}" for i in range(12)]
    rate = [
        {
            "request_type": n,
            "window_s": 300.0,
            "start_s": 0.0,
            "requests": 1,
            "input_tokens": 300,
            "complete": True,
        }
        for n in names
    ]
    rate.append({**rate[0], "request_type": "*", "requests": 12, "input_tokens": 3600})
    summary = [{"request_type": n, "requests": 1} for n in ["*", *names]]
    _, rows = _draw("input_tokens_per_s", sample.saved(rate=rate, type_summary=summary))
    assert {row["series"]: row["value"] for row in rows}[OTHERS] == 3.0
    assert len({row["series"] for row in rows}) == 10


def test_exceedance_and_quantile() -> None:
    bins = [{"bin_low": 1.0, "bin_high": 4.0, "count": 3}, {"bin_low": 0, "bin_high": 0, "count": 1}]
    assert exceedance(bins) == [(0, 1.0), (1.0, 0.75)]
    assert quantile(bins, 0.5) == 2.0
    assert quantile(bins, 0.25) == 0.0
    assert np.isnan(quantile([], 0.5))


def test_zero_lengths_lie_left_of_a_logarithmic_axis_and_are_said() -> None:
    rows = [
        {"request_type": "*", "metric": "output", "bin_low": 0.0, "bin_high": 0.0, "count": 25},
        {"request_type": "*", "metric": "output", "bin_low": 10.0, "bin_high": 11.0, "count": 50},
        {"request_type": "*", "metric": "output", "bin_low": 20.0, "bin_high": 21.0, "count": 25},
    ]
    drawing, points = _draw("output_ccdf", sample.saved(length_ccdf=rows))
    assert drawing.remark.startswith("25.0% of the requests have 0 output tokens")
    assert [(row["x"], row["y"]) for row in points] == [(10.0, 0.75), (20.0, 0.25)]


def test_days_and_weeks_need_their_span() -> None:
    tables = sample.tables()
    hours = [row for row in tables["load_hour"].rows() if row["hour"] < 47]
    reasons = _reasons(sample.saved(load_hour=hours))
    assert reasons["daily"] == "needs at least 2 days; the trace touches 47 hours of its clock"
    assert reasons["hour_of_week"].startswith("needs at least 2 weeks")
    _, rows = _draw("daily")
    assert {row["day"] for row in rows} == set(range(16))  # 15 days and the end of the last step
    assert [row["value"] for row in rows if row["day"] == 0] == [792, 516]


def test_a_source_without_the_column_is_the_reason_for_a_missing_table() -> None:
    saved = sample.saved(without=("turns", "user_share"))
    saved.document["meta"]["columns"] = ["arrival_us", "user"]
    assert _reasons(saved) == {
        "turns": "the trace states no sessions",
        "users": "no table user_share in this result",
    }


def test_hours_of_the_week_are_means_over_the_weeks() -> None:
    drawing, rows = _draw("hour_of_week")
    assert len(rows) == 168
    assert {row["value"] for row in rows if row["hour"] == 5} == {10 + 5 + 10 + 10}
    assert "highest at hour 23" in drawing.says


def test_a_calendar_names_its_weekdays() -> None:
    saved = sample.saved()
    saved.document["meta"]["origin"] = {"kind": "calendar", "first_ns": 0}
    _, rows = _draw("hour_of_week", saved)
    assert {row["day"] for row in rows} == {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
    odd = [{"hour": h, "endpoint_group": "chat", "requests": 7 if h < 24 else 1} for h in range(14 * 24)]
    saved = Saved({**sample.saved(load_hour=odd).tables}, saved.document)
    _, rows = _draw("hour_of_week", saved)
    assert {row["day"] for row in rows if row["value"] == 4.0} == {"Thu"}  # 1970-01-01 was a Thursday


def test_reuse_ceiling_is_split_and_shares_are_of_input_tokens() -> None:
    _, rows = _draw("reuse_ceiling")
    whole = {row["series"]: row["value"] for row in rows if row["part"] == "whole trace"}
    assert whole == {"same session": 0.3, "other sessions": 0.1}


def test_models_show_shares_of_each_day_with_the_rest_gathered() -> None:
    _, rows = _draw("models")
    day = {row["series"]: row["value"] for row in rows if row["day"] == 0}
    counts = [100 // (i + 1) for i in range(12)]
    assert day["model 0"] == round(100 / sum(counts), 5)
    assert day[OTHERS] == round(sum(counts[9:]) / sum(counts), 5)
    assert sum(day.values()) == pytest.approx(1, abs=1e-4)


def test_models_of_one_day_are_bars_and_one_model_is_no_figure() -> None:
    rows = [{"model": m, "day": 3, "requests": n} for m, n in (("a", 3), ("b", 1))]
    _, bars = _draw("models", sample.saved(model_day=rows))
    assert [(bar["model"], bar["share"]) for bar in bars] == [("a", 0.75), ("b", 0.25)]
    assert _reasons(sample.saved(model_day=rows[:1]))["models"] == "all requests go to one model (a)"
    rows = [{"model": None, "day": d, "requests": 1} for d in (1, 2)]
    unnamed = sample.saved()
    unnamed.tables["model_day"] = Table("model_day", pa.Table.from_pylist(rows, MODEL_DAY))
    assert _reasons(unnamed)["models"] == "the trace states no models"


def test_users_are_added_up_by_rank() -> None:
    _, rows = _draw("users")
    assert [row["value"] for row in rows if row["series"].startswith("all")] == [0.5, 0.75, 0.85]


def test_cached_share_counts_whole_hits_apart() -> None:
    drawing, rows = _draw("cached_share")
    assert {row["x"]: row["y"] for row in rows if row["y"]} == {"0–10%": 0.6, "70–80%": 0.2, "100%": 0.2}
    assert drawing.says.startswith("60.0% of the requests had under 10%")


def test_ticks_and_units_fit_the_span() -> None:
    assert ticks(3, 4000) == [10.0, 100.0, 1000.0]
    assert ticks(0.5, 8) == [0.5, 1.0, 2.0, 5.0]
    assert [time_unit(s)[0] for s in (599, 600, 14400, 432_000, 432_001)] == [
        "seconds",
        "minutes",
        "minutes",
        "hours",
        "days",
    ]


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("palette", "panel"), [(LIGHT, "#ffffff"), (DARK, "#171c24")])
def test_colours_stand_out_from_their_panel(palette: dict[str, Any], panel: str) -> None:
    def contrast(colour: str) -> float:
        low, high = sorted((_luminance(colour), _luminance(panel)))
        return (high + 0.05) / (low + 0.05)

    assert contrast(palette["ink"]) >= 7 and contrast(palette["muted"]) >= 4.5
    assert min(contrast(colour) for colour in palette["series"]) >= 3


ONE_BIN = {"bin_low": 10.0, "bin_high": 10.2, "count": 7}
SAME = [
    (
        "input_ccdf",
        "length_ccdf",
        {"request_type": "*", "metric": "input"},
        "all requests are of one size, about 10 ",
    ),
    (
        "latency",
        "value_hist",
        {"metric": "e2e", "series": "global"},
        "all latencies fall into one bin, up to 10.2 s",
    ),
    ("think_time", "start_gap", {}, "all pauses fall into one bin, up to 10.2 s"),
    ("new_tokens", "new_tokens", {}, "every follow-up adds about 10 tokens"),
    ("turns", "turns", {"turns": 1, "sessions": 4}, "every session has 1 turn"),
]


@pytest.mark.parametrize(("name", "table", "key", "reason"), SAME)
def test_a_single_value_is_said_and_not_drawn(
    name: str, table: str, key: dict[str, Any], reason: str
) -> None:
    without = ("think_time",) if table == "start_gap" else ()
    saved = sample.saved(without=without, **{table: [{**ONE_BIN, **key}]})
    assert _reasons(saved)[name].startswith(reason)


def test_a_table_of_another_version_is_named_with_its_missing_column() -> None:
    rows = [{"turns": 1}, {"turns": 2}]
    assert _reasons(sample.saved(turns=rows))["turns"] == "its table lacks a column: sessions"
    empty = sample.saved()
    empty.tables["turns"] = Table("turns", empty.tables["turns"].data.slice(0, 0))
    assert _reasons(empty)["turns"] == "table turns has no rows"


def test_new_tokens_say_how_much_of_the_input_is_new() -> None:
    drawing, _ = _draw("new_tokens")
    assert (
        "25.0% of all input tokens of sessions are new; the rest repeats the history or is unknown"
        in drawing.says
    )
    assert drawing.remark == "10 follow-ups are shorter than their history and are left out."
    whole = [{**sample.tables()["growth"].rows()[0], "shortened": 0}]
    drawing, _ = _draw("new_tokens", sample.saved(growth=whole))
    assert drawing.says.endswith("the rest repeats the history.") and drawing.remark == ""
