"""D1 to D7 on hand-made tables: curves, means, boxes and coverage worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.report.figure import NotDrawn
from servescope.report.study.caching import box, coverage_at
from tests.report import study_sample
from tests.report.study_marks import draw, rows_of


def _last(rows: list[dict[str, object]], series: str) -> list[tuple[object, object]]:
    return [(row["x"], row["y"]) for row in rows if row["series"] == series]


def test_hits_by_length_start_at_the_share_of_zeros() -> None:
    drawing, rows = draw("D1")
    assert _last(rows, "input < 1,000") == [(0.0, 0.2), (1.0, 1.0)]
    assert _last(rows, "input ≥ 8,000") == [(0.0, 0.8), (1.0, 1.0)]
    assert drawing.samples == "all requests 10; input < 1,000 10; input ≥ 8,000 10 requests"


def test_hits_by_model_reach_one_with_the_whole_prompts() -> None:
    assert _last(draw("D2")[1], "big-TEE") == [(0.0, 0.4), (0.501, 0.6), (0.901, 0.8), (1.0, 1.0)]


def test_volume_and_reuse_take_means_of_requests_above_the_threshold() -> None:
    drawing, rows = draw("D3")
    assert [(row["y"], row["y2"], row["n"]) for row in rows] == [(0.48, 0.52, 4)]  # 50.5 / 101
    assert drawing.samples == "4 models, 404 requests"
    stats = [{**row, "n_hit": 100} for row in study_sample.tables()["model_stats"].rows()]
    with pytest.raises(NotDrawn, match="more than 100 requests with known cached tokens"):
        draw("D3", study_sample.saved(model_stats=stats))
    drawing, rows = draw("D4")
    assert sum(row["n"] for row in rows) == 12
    assert "16.7% of them stay below 10%" in drawing.says  # means i / 12: of users 0 and 1


def test_user_months_take_the_median_over_users_of_each_percentile() -> None:
    drawing, rows = draw("D5")
    assert rows[0] == {"x": 1, "p10": 2.0, "p25": 4.0, "p50": 8.0, "p75": 16.0, "p90": 32.0}
    assert drawing.samples == "6 user-months of 3 users, 60 gaps"
    few = [{**row, "n_gaps": 9} for row in study_sample.tables()["user_month_gap"].rows()]
    with pytest.raises(NotDrawn, match="no user has 10 gaps"):
        draw("D5", study_sample.saved(user_month_gap=few))


def test_boxes_have_whiskers_to_the_last_value_inside() -> None:
    found = box(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 100.0]))
    assert found == {"q1": 2.25, "q2": 3.5, "q3": 4.75, "low": 1.0, "high": 5.0, "n": 6}


def test_pairs_of_models_without_medians_have_no_box() -> None:
    drawing, rows = draw("D6")
    assert [row["n"] for row in rows] == [5, 5]
    assert rows[0]["model"] == "big-TEE" and rows[0]["q2"] == 3.0 and rows[1]["q2"] == 100.0
    assert drawing.samples == "10 pairs of user and model"


def test_coverage_is_the_pooled_share_between_bin_edges() -> None:
    saved = study_sample.saved()
    # of ten gaps: one from 0.1 s, six from 10^0.5, two from 10^2.5, one from 10^4.5 s
    assert coverage_at(saved, 0.09) == 0.0
    assert coverage_at(saved, 0.2) == pytest.approx(0.1)
    assert coverage_at(saved, 60.0) == pytest.approx(0.7)
    assert coverage_at(saved, 10 ** (0.505)) == pytest.approx(0.1 + 0.6 / 2)
    drawing, _ = draw("D7", saved)
    *_, line = rows_of(drawing.chart.to_dict())
    assert (line[0]["x"], line[0]["y"]) == (1e-3, 0.0)
    assert (line[-1]["x"], line[-1]["y"]) == (1e4, 0.9)
    assert drawing.says.startswith("Of all repeat requests 70.0% within 1 minute, 90.0% within 1 hour; 10.0%")
    assert drawing.samples == "10 gaps"
