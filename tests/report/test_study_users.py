"""B1 to B10 on hand-made tables: thresholds, cells, correlations and rasters worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from servescope.report.figure import POINTS, NotDrawn
from servescope.report.study.cells import half_log_cells, log_cells, spearman
from servescope.report.study.rhythm import dots
from tests.report import study_sample
from tests.report.study_marks import draw, rows_of
from tests.report.study_sample import BARE, PLAIN, TEE


def test_log_cells_are_square_and_lie_on_decades() -> None:
    rows, cells = log_cells(np.array([1.0, 9.99, 10.0, 100.0]), np.array([1.0, 1.0, 1.0, 50.0]), 2)
    assert cells == 1
    assert [(r["x"], r["x2"], r["y"], r["y2"], r["n"]) for r in rows] == [
        (1.0, 10.0, 1.0, 10.0, 2),
        (10.0, 100.0, 1.0, 10.0, 1),
        (100.0, 1000.0, 10.0, 100.0, 1),
    ]


def test_linear_cells_hold_one_in_the_last() -> None:
    rows, _ = half_log_cells(np.array([10.0, 10.0, 1000.0]), np.array([0.0, 1.0, 0.04]), 2, 25)
    assert [(r["y"], r["y2"]) for r in rows] == [(0.0, 0.04), (0.96, 1.0), (0.04, 0.08)]


def test_models_need_100_gaps() -> None:
    drawing, rows = draw("B1")
    assert drawing.samples == "2 models of 4"
    assert sum(row["n"] for row in rows) == 2
    # big-TEE: 12 users, 12 * 6 + 100 * 66 requests; big: 6 users (even ones), 36 + 100 * 30
    ends = {(6672.0, 12.0), (3036.0, 6.0)}
    found = {
        (x, y) for x, y in ends for r in rows if r["x"] <= x < r["x2"] and r["y"] <= y < r["y2"] * (1 + 1e-9)
    }
    assert found == ends


def test_users_need_more_than_ten_requests_and_two_models() -> None:
    drawing, rows = draw("B2")
    # users 1, 5, 7, 11 ask one model; user 0 asks four with 24 requests
    assert sum(row["n"] for row in rows) == 8
    assert drawing.samples == "8 users of 12"
    assert "33.3% of all users ask one model only" in drawing.says


def test_typical_users_have_more_than_ten_requests() -> None:
    drawing, rows = draw("B3")
    assert sum(row["n"] for row in rows) == 10
    assert drawing.samples == "10 users, 110 requests"
    assert "median input 550, median output 55 in the middle; 100.0% lie below" in drawing.says


def test_typical_models_may_have_one_request() -> None:
    drawing, _ = draw("B4")
    assert drawing.samples == "4 models, 4 requests"


def test_spearman_is_one_minus_one_or_between_with_middle_ranks() -> None:
    up, down = np.array([1, 2]), np.array([2, 1])
    assert spearman(up, up, np.array([5.0, 5.0])) == pytest.approx(1.0)
    assert spearman(up, down, np.array([5.0, 5.0])) == pytest.approx(-1.0)
    assert math.isnan(spearman(np.array([1, 1]), up, np.array([1.0, 1.0])))
    previous, following = np.array([1, 2, 1]), np.array([1, 2, 2])
    rows = np.repeat(np.stack([previous, following]), [5, 5, 1], axis=1)
    assert spearman(previous, following, np.array([5.0, 5.0, 1.0])) == pytest.approx(
        np.corrcoef(rows[0], rows[1])[0, 1]  # two values a side: ranks are a linear map of them
    )


def test_hours_are_averaged_unweighted_over_busy_hours_only() -> None:
    drawing, rows = draw("B9")
    assert sum(row["n"] for row in rows) == 2  # the hostile one has 9 requests an hour
    assert drawing.samples == "2 models, 10 valid hours"
    assert drawing.says.startswith("2 models. 50.0% of the models have a mean CV above 1")
    _, line = rows_of(draw("B9")[0].chart.to_dict())
    assert {row["y"] for row in line} == {1.0}


def test_dots_have_the_correlation_of_their_own_gaps() -> None:
    _, rows = draw("B10")
    found = {row["model"]: row for row in rows}
    assert found[TEE]["x"] == 10 and found[TEE]["y"] == 2.0
    assert found[PLAIN]["x"] == 30 and found[PLAIN]["value"] == -1.0
    assert 0.8 < found[TEE]["value"] < 0.9  # 11 pairs, one against the others: 10 / 12 ranks


def test_models_with_few_requests_of_users_are_left_out() -> None:
    pairs = [{"user": "u", "model": m, "requests": n} for m, n in ((TEE, 101), (PLAIN, 100))]
    drawing, _ = draw("B9", study_sample.saved(pair_count=pairs))
    assert drawing.samples == "1 models, 5 valid hours"


def test_rasters_show_the_asked_user_and_model() -> None:
    drawing, rows = draw("B5")
    assert [(row["x"], row["y"]) for row in rows] == [(0, 0), (0.5, 1), (1, 2), (1.5, 0), (2, 1), (2.5, 2)]
    assert drawing.says.startswith(
        "Rank 1 by requests (the user, 60 requests in the window): 6 requests over 3"
    )
    saved = study_sample.saved(inputs={"raster_user_ranks": [10, 1], "raster_models": [PLAIN, TEE]})
    assert draw("B5", saved)[0].says.startswith("Rank 10 ")
    assert draw("B7", saved)[0].says.startswith("Rank 10 by requests (big,")
    with pytest.raises(NotDrawn, match="2 models were picked"):
        draw("B7", study_sample.saved(inputs={"raster_models": [BARE]}))


def test_dense_rasters_become_cells_of_time() -> None:
    few, steps = dots(np.array([0.25, 30.9]), np.array([0, 10]))
    assert steps == 0 and few == [{"x": 0.25, "y": 0, "c": 0}, {"x": 30.9, "y": 10, "c": 1}]
    day = np.tile(np.arange(0, 31, 0.001), 2)
    many, steps = dots(day, np.repeat([0, 1], 31_000))
    assert steps == 48 and len(many) == 2 * 31 * 48 <= POINTS
    assert many[0] == {"x": round(0.5 / 48, 4), "y": 0, "c": 0}
    crowd, _ = dots(np.zeros(3 * POINTS), np.arange(3 * POINTS))
    assert len(crowd) <= POINTS
