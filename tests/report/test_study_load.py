"""A1 to A13 on hand-made tables: sums, divisors, curves, medians and cells worked out by hand."""

from __future__ import annotations

import math

import pytest

from servescope.report.figure import NotDrawn
from servescope.report.study.charts import GLOBAL
from tests.report import study_sample
from tests.report.study_marks import draw
from tests.report.study_sample import DAYS, GROUPS, bins

A_DAY = sum(1 + at + h % 24 for h in range(24) for at in range(5))  # 5 groups: 1,740


def test_days_are_summed_over_hours_and_groups() -> None:
    drawing, rows = draw("A1")
    assert [row["y"] for row in rows] == [A_DAY] * DAYS and A_DAY == 1740
    assert [row["x"] for row in rows] == list(range(DAYS))
    assert drawing.samples == f"{1740 * DAYS:,} requests"


def test_tokens_of_a_day_are_input_and_output_of_completed_requests() -> None:
    drawing, rows = draw("A2")
    assert {row["y"] for row in rows} == {24 * 5 * 110}
    assert drawing.samples == f"{24 * 5 * DAYS:,} completed requests"


def test_a_day_without_requests_is_zero() -> None:
    load = [{**study_sample.tables()["load_hour"].rows()[0], "hour": hour, "requests": 7} for hour in (0, 48)]
    _, rows = draw("A1", study_sample.saved(load_hour=load))
    assert [row["y"] for row in rows] == [7, 0, 7]


def test_models_of_a_day_are_counted_once_each() -> None:
    days = [{"model": m, "day": d, "requests": 1} for m, d in (("a", 4), ("b", 4), ("a", 6), (None, 6))]
    drawing, rows = draw("A3", study_sample.saved(model_day=days))
    assert [(row["x"], row["y"]) for row in rows] == [(4, 2), (5, 0), (6, 1)]
    assert drawing.samples == "2 models"


def test_endpoints_have_all_five_groups_and_add_up_to_the_requests() -> None:
    _, rows = draw("A4")
    assert list(dict.fromkeys(row["series"] for row in rows)) == list(GROUPS)
    assert sum(row["y"] for row in rows if row["x"] == 3) == A_DAY


def test_hours_of_the_week_are_divided_by_the_days_that_have_requests() -> None:
    hours = [d * 24 + 5 for d in range(15)]  # day mod 7 = 0 on 3 days, all others on 2
    load = [{**study_sample.tables()["load_hour"].rows()[0], "hour": h, "requests": 6} for h in hours]
    drawing, rows = draw("A5", study_sample.saved(load_hour=load))
    cells = {(row["day"], row["hour"]): row["value"] for row in rows}
    assert len(cells) == 168
    assert {cells[str(day), 5] for day in range(7)} == {6}
    assert sum(cells.values()) == 42
    assert drawing.samples == "90 requests on 15 days"
    with pytest.raises(NotDrawn, match="14 days with requests; the trace has 13"):
        draw("A5", study_sample.saved(load_hour=load[:13]))


def test_weekdays_are_named_only_where_the_trace_has_a_calendar() -> None:
    saved = study_sample.saved()
    saved.document["meta"]["origin"]["kind"] = "calendar"
    _, rows = draw("A5", saved)
    assert rows[0]["day"] == "Mon"
    assert draw("A5")[1][0]["day"] == "0"


def test_curves_rise_to_one_at_upper_bin_edges() -> None:
    drawing, rows = draw("A6")
    curve = [(row["x"], row["y"]) for row in rows if row["series"] == GLOBAL]
    assert [y for _, y in curve] == [0.0, 0.25, 0.75, 1.0]
    assert [round(math.log10(x) * 100) for x, _ in curve] == [300, 301, 351, 401]
    assert "all requests 3,199" in drawing.says  # the middle bin's middle: 10^3.505
    assert "all requests 40; " in drawing.samples


def test_medians_of_curves_are_bin_middles() -> None:
    assert "all requests 10.1, big-TEE 10.1" in draw("A9")[0].says  # 10^1.005


def test_zeros_on_a_logarithmic_axis_raise_the_curve_and_are_said() -> None:
    values = [
        {"metric": "ot", "series": "global", "bin_low": 0.0, "bin_high": 0.0, "count": 1},
        *bins({100: 2, 200: 1}, metric="ot", series="global"),
    ]
    drawing, rows = draw("A7", study_sample.saved(value_hist=values))
    assert [row["y"] for row in rows] == [0.75, 1.0]
    assert drawing.remark.startswith("Zeros lie left of the axis")


def test_negative_values_do_not_break_a_curve() -> None:
    values = [
        {"metric": "ot", "series": "global", "bin_low": -math.inf, "bin_high": 0.0, "count": 1},
        *bins({100: 2, 200: 1}, metric="ot", series="global"),
    ]
    _, rows = draw("A7", study_sample.saved(value_hist=values))
    assert [row["y"] for row in rows] == [0.75, 1.0]


def test_shapes_keep_cells_of_50_inside_the_limits_on_their_edges() -> None:
    drawing, rows = draw("A11")
    assert [(r["x"], r["x2"], r["y"], r["y2"], r["n"]) for r in rows] == [
        (0, 2000, 0, 200, 60),
        (2000, 4000, 0, 200, 50),
        (32000, 34000, 8000, 8200, 50),
    ]
    assert {row["value"] for row in rows} == {1.0116}  # the bin from 1 s holds the middle
    assert drawing.samples == "160 requests in cells shown"


def test_cached_shares_keep_cells_of_200_and_tell_all_from_most() -> None:
    _, rows = draw("A13")
    assert [(row["x"], row["y"], row["n"]) for row in rows] == [(0, "0–10%", 200), (0, "all", 300)]
    assert {row["value"] for row in rows} == {0.10116}


def test_days_and_months_of_a_calendar_are_named() -> None:
    saved = study_sample.saved()
    saved.document["meta"]["origin"]["kind"] = "calendar"
    drawing, rows = draw("A1", saved)
    assert rows[1]["x"] == 86_400_000
    assert drawing.chart.to_dict()["encoding"]["x"]["type"] == "temporal"
    assert draw("C1", saved)[1][0]["month"] == "1970-01"
    assert draw("E1", saved)[1][0]["x"] == 3_600_000
    axis = draw("C4", saved)[0].chart.to_dict()["layer"][0]["encoding"]["x"]["axis"]
    assert "1970 + floor" in axis["labelExpr"]
