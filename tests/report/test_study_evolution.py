"""C1 to C7 on hand-made tables: shares, merged names, quantiles of months and cohorts worked out by hand."""

from __future__ import annotations

import pytest

from servescope.report.figure import NotDrawn
from servescope.report.study.evolution import months_of, named
from servescope.report.theme import OTHERS
from tests.report import sample, study_sample
from tests.report.study_marks import draw


def _model_days(*rows: tuple[str | None, int, int]) -> list[dict[str, object]]:
    return [
        {"model": m, "day": d, "requests": n, "it_sum": n * 9, "ot_sum": n, "user": None} for m, d, n in rows
    ]


def test_deployments_merge_and_bare_ids_are_among_the_others() -> None:
    drawing, rows = draw("C1")
    first = {row["series"]: row["share"] for row in rows if row["month"] == 1}
    # of 100 requests a day: big-TEE 40 and big 30 are one model, the hostile name has 20, the id 10
    hostile = sample.HOSTILE.replace("\u2028", "\\u2028").rsplit("/", 1)[-1]
    assert first == {"big": 0.7, hostile: 0.2, OTHERS: 0.1}
    assert [row["month"] for row in rows[::3]] == [1, 2, 3]
    assert drawing.remark.startswith("10.0% of the requests go to models that have an id")
    assert drawing.samples == f"{100 * study_sample.DAYS:,} requests"


def test_token_shares_rank_by_requests_all_the_same() -> None:
    _, rows = draw("C2")
    assert [row["series"] for row in rows[:3]] == [row["series"] for row in draw("C1")[1][:3]]
    assert [row["share"] for row in rows[:3]] == [0.5, 0.25, 0.25]


def test_only_ten_models_have_a_band_and_the_rest_is_added_up() -> None:
    days = _model_days(*((f"org/m{i:02}", d, 100 - i) for i in range(12) for d in (0, 40)))
    _, rows = draw("C1", study_sample.saved(model_day=days))
    month = [row for row in rows if row["month"] == 1]
    assert [row["series"] for row in month] == [f"m{i:02}" for i in range(10)] + [OTHERS]
    total = sum(100 - i for i in range(12))
    assert month[-1]["share"] == pytest.approx((90 + 89) / total, abs=1e-5)
    assert sum(row["share"] for row in month) == pytest.approx(1, abs=1e-4)


def test_rows_without_a_model_are_no_part_of_the_shares() -> None:
    days = _model_days(("org/a", 0, 5), (None, 0, 95), ("org/a", 40, 5))
    assert {row["share"] for row in draw("C1", study_sample.saved(model_day=days))[1]} == {1.0, 0.0}


def test_the_legend_has_the_shares_of_the_whole_trace() -> None:
    days = _model_days(("org/a", 0, 30), ("org/b", 0, 10), ("org/a", 40, 10), ("org/b", 40, 50))
    _, rows = draw("C3", study_sample.saved(model_day=days))
    assert [(row["series"], row["share"]) for row in rows] == [("b", 0.6), ("a", 0.4), (OTHERS, 0.0)]


def test_one_month_is_no_evolution() -> None:
    with pytest.raises(NotDrawn, match="at least 2 calendar months"):
        draw("C1", study_sample.saved(model_day=_model_days(("org/a", 0, 5))))


def test_months_are_those_of_a_calendar_that_begins_in_1970() -> None:
    import numpy as np

    assert months_of(np.array([0, 30, 31, 58, 59, 365])).tolist() == [1, 1, 2, 2, 3, 13]
    assert named("gpt-4") and not named("1c757c07-30a6-7efb")


def test_quantiles_of_months_are_bin_middles() -> None:
    drawing, rows = draw("C4")
    # ten requests in bins k, k+20 (2), k+40+month (4), k+60 (2), k+80: P10 in the first, P25 in the second
    assert [row["x"] for row in rows] == [1, 2, 3]
    for month, row in enumerate(rows, start=1):
        wanted = {"p10": 300, "p25": 320, "p50": 340 + month, "p75": 360, "p90": 360}
        assert {k: row[k] for k in wanted} == pytest.approx(
            {k: 10 ** ((b + 0.5) / 100) for k, b in wanted.items()}, rel=1e-4
        )
    assert drawing.samples == "30 requests"


def test_cohorts_have_exact_quantiles_over_users_above_the_threshold() -> None:
    drawing, rows = draw("C6")
    # ten users above 10 requests; cohort 1 has medians 100, 300, 500, 700, 900
    assert rows[0] == {"x": 1, "p10": 180.0, "p25": 300.0, "p50": 500.0, "p75": 700.0, "p90": 820.0}
    assert rows[1]["p50"] == 600.0
    assert drawing.samples == "10 users, 110 requests"
    assert draw("C7")[1][0]["p50"] == 50.0


def test_cohorts_leave_out_users_with_a_median_of_one() -> None:
    stats = study_sample.tables()["user_stats"].rows()
    stats[0]["ot_median"] = 1.0
    assert draw("C6", study_sample.saved(user_stats=stats))[0].samples == "9 users, 99 requests"
