"""Published numbers beside ours: the file, the measures, the deviation, the marks over figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from servescope.errors import UsageError
from servescope.report.saved import Saved
from servescope.report.study import STUDY, study_part
from servescope.report.study import compare as comparing
from servescope.report.study.compare import compared, compared_tables, deviation, overlaid, published, shown
from servescope.report.study.measures import MEASURES
from tests.report import study_sample
from tests.report.study_marks import NAMES, rows_of
from tests.report.study_sample import bins


def _ours(saved: Saved) -> dict[str, float | None]:
    source = published("chutes")
    return dict(
        zip(
            (f["measure"] for f in source.findings),
            compared(saved, source).data["ours"].to_pylist(),
            strict=True,
        )
    )


def test_the_published_numbers_are_small_attributed_and_all_measured() -> None:
    source = published("chutes")
    folder = Path(comparing.DATA) / "chutes"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
    assert "CC BY 4.0" in (folder / "ATTRIBUTION.md").read_text() and "CC BY 4.0" in source.credit
    assert {f["measure"] for f in source.findings} == set(MEASURES)
    codes = {figure.code for figure in STUDY.values()}
    assert {row["figure"] for row in [*source.findings, *source.marks]} <= codes
    for finding in source.findings:
        ends = [end for end in (finding["low"], finding["high"]) if end is not None]
        assert ends == sorted(ends) and finding["published"]


def test_an_unknown_study_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r'unknown study "chute"\. Did you mean chutes\? Known: chutes\.'):
        published("chute")
    with pytest.raises(UsageError, match="unknown study"):
        compared_tables((), "nobody")
    assert compared_tables((), None) == []


def test_deviation_is_relative_to_the_nearer_end() -> None:
    assert deviation(150.0, 100.0, 100.0) == 0.5
    assert deviation(50.0, 100.0, 200.0) == -0.5
    assert deviation(300.0, 100.0, 200.0) == 0.5
    assert deviation(150.0, 100.0, 200.0) == 0.0
    assert deviation(0.2, None, 0.0) == 0.2
    assert deviation(None, 1.0, 1.0) is None
    assert deviation(5.0, None, None) is None


def test_measures_of_the_sample_are_those_worked_out_by_hand() -> None:
    ours = _ours(study_sample.saved())
    assert ours["requests"] == 1000 and ours["days"] == 62
    assert ours["output_per_input"] == 0.1
    assert ours["models_early"] == ours["models_late"] == 4
    assert ours["chat_change"] == pytest.approx(0.0)
    assert ours["inputs_usual"] == pytest.approx(1.0)  # 10^3 to 10^4.01
    assert ours["outputs_usual"] == 1.0
    assert ours["outputs_shorter"] == 1.0  # ratios from 10^-1.5 to 10^-0.49
    assert ours["prefill_median"] == pytest.approx(0.5, abs=0.001)
    assert ours["bursty_models"] == 0.5 and ours["correlated_models"] == 0.5
    assert ours["others_change"] == 0.0
    assert ours["output_median_first"] == pytest.approx(10**2.415, rel=1e-4)
    assert ours["output_median_last"] == pytest.approx(10**2.435, rel=1e-4)
    assert ours["cohort_growth"] == pytest.approx(600 / 500)
    assert ours["hits_at_ends"] == 0.8  # 4 at 0, 2 from 0.9, 2 at 1 of ten
    assert ours["short_reuse"] == pytest.approx(0.8 * 0.9995 - 0.2 * 0.9995)
    assert ours["return_100ms"] == pytest.approx(0.0, abs=0.001)
    assert ours["return_10s"] == pytest.approx(0.7) and ours["return_15min"] == pytest.approx(0.9)
    assert ours["instances"] == 3


def test_measures_without_their_tables_are_unknown() -> None:
    ours = _ours(Saved())
    assert set(ours.values()) == {None}
    rows = shown(compared(Saved(), published("chutes")))
    assert {row["ours"] for row in rows} == {"–"} == {row["deviation"] for row in rows}


def test_the_page_says_within_percent_or_the_difference() -> None:
    load = study_sample.tables()["load_hour"].rows()
    load = [{**row, "requests": row["requests"] + 9 * (row["hour"] > 1440)} for row in load]
    rows = {
        row["finding"]: row
        for row in shown(compared(study_sample.saved(load_hour=load), published("chutes")))
    }
    assert rows["serving instances"]["deviation"] == "-100%"
    assert rows["share of outputs shorter than their input"]["deviation"] == "within"
    change = rows["share of completion (streamed or not), last month less first"]
    assert "%" not in change["deviation"]


def test_published_points_lie_over_the_coverage_and_nothing_over_others() -> None:
    source = published("chutes")
    saved = study_sample.saved()
    plain = STUDY[NAMES["D7"]].draw(saved)
    over = overlaid(plain, "D7", source)
    points = [(row.get("x"), row.get("y")) for rows in rows_of(over.chart.to_dict()) for row in rows]
    assert {(0.1, 0.5), (10, 0.8), (900, 0.99)} <= set(points)
    assert over.remark.endswith("(half; 80 %; 99 %).")
    other = STUDY[NAMES["D5"]].draw(saved)
    assert overlaid(other, "D5", source) is other


def test_every_published_mark_can_be_laid_over_its_figure() -> None:
    part = study_part(study_sample.saved(), "chutes")
    assert len(part.drawn) == 45 and len(part.compared) == len(MEASURES)
    marked = {mark["figure"] for mark in published("chutes").marks}
    assert {item.figure.code for item in part.drawn if "was published" in item.drawing.remark} == marked
    for item in part.drawn:
        assert item.drawing.chart.to_dict()["width"] == "container"


def test_the_result_itself_can_ask_for_the_comparison() -> None:
    assert study_part(study_sample.saved(inputs={"compare": "chutes"})).compared
    assert not study_part(study_sample.saved()).compared


def test_a_comparison_alone_is_shown_without_the_studys_tables() -> None:
    gaps = Saved({"pair_gap_hist": compared_tables((), "chutes")[0]})
    assert study_part(gaps, "chutes").drawn == []
    part = study_part(study_sample.saved(pair_gap_hist=bins({0: 1})), "chutes")
    assert {row["finding"]: row["ours"] for row in part.compared}[
        "repeat requests of a user to a model within 15 min"
    ] == "1"
