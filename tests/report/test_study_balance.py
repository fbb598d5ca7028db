"""E1 to E8 on hand-made tables: hours, minutes, cells and one user's spread worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.report.figure import POINTS, NotDrawn
from servescope.report.study.balance_load import busiest_day
from servescope.report.study.balance_users import CACHED, SHARE
from tests.report import study_sample
from tests.report.study_marks import draw
from tests.report.study_sample import TEE


def _minutes(*rows: tuple[str, int, int, int]) -> list[dict[str, object]]:
    return [
        {"model": TEE, "instance": i, "minute": m, "requests": n, "tokens": t, "cached": 0}
        for i, m, n, t in rows
    ]


def test_an_hour_has_the_requests_of_its_instance_minutes() -> None:
    drawing, rows = draw("E1")
    found = {round(row["x"] * 24): row["y"] for row in rows}
    assert found[1] == 2 * (5 + 10)  # two instances, two of its minutes
    assert found[24] == 2 * (5 + 10 + 15)
    assert drawing.samples.endswith(" instance-minutes")


def test_active_instances_are_the_median_over_minutes_that_exist() -> None:
    minutes = _minutes(("a", 0, 1, 1), ("b", 0, 1, 1), ("c", 0, 1, 1), ("a", 1, 1, 1), ("a", 125, 1, 1))
    _, rows = draw("E2", study_sample.saved(instance_minute=minutes))
    assert [row["y"] for row in rows] == [2.0, None, 1.0]  # the second hour has no minutes: a gap


def test_imbalance_needs_two_instances_and_ten_requests_in_a_minute() -> None:
    minutes = _minutes(
        ("a", 0, 5, 300), ("b", 0, 5, 100),  # 300 / 200
        ("a", 1, 9, 100), ("b", 1, 1, 100),  # 1
        ("a", 2, 9, 900),  # one instance
        ("a", 3, 4, 900), ("b", 3, 5, 100),  # nine requests
    )  # fmt: skip
    _, rows = draw("E3", study_sample.saved(instance_minute=minutes))
    assert [row["y"] for row in rows] == [1.25]
    with pytest.raises(NotDrawn, match="no hour of the balance window"):
        draw("E3", study_sample.saved(instance_minute=minutes[4:]))


def test_the_busiest_day_ends_where_the_rolling_mean_is_highest() -> None:
    minutes = np.arange(0, 4 * 1440)
    active = np.where((minutes >= 1500) & (minutes < 1500 + 1440), 5.0, 1.0)
    # fullest window: minutes 1500 to 2939; its end less a day is 1499, in hour 24
    assert busiest_day(minutes, active) == 24 * 60
    assert busiest_day(np.array([130, 200]), np.array([1.0, 1.0])) == 120


def test_the_busiest_day_is_a_map_of_instances_by_first_activity() -> None:
    drawing, rows = draw("E4")
    assert len({row["y"] for row in rows}) == 3
    assert {row["value"] for row in rows} == {5.0, 10.0, 15.0}
    assert all(0 <= row["x"] < row["x2"] <= 24 for row in rows)
    assert "3 instances" in drawing.says and drawing.remark == ""


def test_a_crowded_day_is_drawn_in_longer_cells_of_the_mean() -> None:
    minutes = _minutes(*((f"i{i}", m, 2, 1) for i in range(8) for m in range(1440)))
    drawing, rows = draw("E4", study_sample.saved(instance_minute=minutes))
    # the day begins an hour before: the last minute less 24 h is rounded down to an hour
    assert len(rows) == 8 * 276 <= POINTS
    assert {row["value"] for row in rows} == {2.0}
    assert drawing.remark.startswith("A cell is the mean of 5 minutes")


def test_latency_cells_need_30_requests_and_show_their_p90() -> None:
    drawing, rows = draw("E5")
    assert [(row["x"], row["y"], row["n"]) for row in rows] == [(100.0, 10.0, 30), (1000.0, 100.0, 100)]
    low, high = 10**0.005, 10**2.005
    assert [row["value"] for row in rows] == pytest.approx(
        [high, low], rel=1e-4
    )  # 5 of 30 and of 100 are slow
    assert drawing.samples == "130 requests in cells shown"
    assert draw("E6")[0].says.startswith(TEE + ": P90 of decode time")


def test_a_user_is_spread_over_the_instances_active_in_that_hour() -> None:
    drawing, rows = draw("E7")
    assert [(r["instance"], r["value"]) for r in rows if r["what"] == SHARE] == [("i0", 60.0), ("i1", 20.0)]
    assert [r["value"] for r in rows if r["what"] == CACHED] == [40.0, 60.0]
    assert "hour 2: 250 requests of one user on 2 of 2 active instances; 50.0% of the input" in drawing.says
    assert drawing.samples == "250 requests; 2 users qualify"


def test_the_last_pick_is_the_lighter_user_and_idle_instances_are_shown() -> None:
    drawing, rows = draw("E8")
    shares = [(r["instance"], r["value"]) for r in rows if r["what"] == SHARE]
    assert shares == [("i0", 0.0), ("i1", 0.0), ("i2", 100.0)]
    assert "200 requests of one user on 1 of 3 active instances; 90.0%" in drawing.says


def test_a_preset_names_the_model_of_a_figure() -> None:
    loads = [
        {**row, "model": m, "count": n}
        for m, n in ((TEE, 30), ("other", 100))
        for row in study_sample.tables()["load_latency_cell"].rows()[:1]
    ]
    assert draw("E5", study_sample.saved(load_latency_cell=loads))[0].says.startswith("other: ")
    roles = {"balance_roles": {"latency": TEE}}
    saved = study_sample.saved(load_latency_cell=loads, inputs=roles)
    assert draw("E5", saved)[0].says.startswith(TEE + ": ")
