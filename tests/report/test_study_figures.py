"""The study's figures as a table: all 45 with words and bounds, and reasons where one is not drawn."""

from __future__ import annotations

from typing import Any

import pytest

from servescope.report.charts import FIGURES, draw_figures
from servescope.report.figure import POINTS
from servescope.report.saved import Saved
from servescope.report.study import OWN_TABLES, STUDY, has_study, study_part
from tests.report import sample, study_sample

CODES = [
    f"{view}{number}"
    for view, last in (("A", 13), ("B", 10), ("C", 7), ("D", 7), ("E", 8))
    for number in range(1, last + 1)
]


def _marks(spec: dict[str, Any]) -> int:
    """Rows of all data sets of a specification."""
    named = sum(len(rows) for rows in spec.get("datasets", {}).values())
    inline = len(spec.get("data", {}).get("values", ()))
    return named + inline + sum(_marks(part) for part in spec.get("layer", ()))


def test_the_study_has_its_45_figures_in_order_by_their_own_names() -> None:
    assert [figure.code for figure in STUDY.values()] == CODES
    assert len(STUDY) == 45 and not set(STUDY) & set(FIGURES)
    for name, figure in STUDY.items():
        assert name == f"{figure.code.lower()}_{figure.origin.removeprefix('fig_')}"


@pytest.mark.parametrize("name", STUDY)
def test_every_figure_is_drawn_with_words_counts_and_a_bounded_number_of_marks(name: str) -> None:
    figure = STUDY[name]
    for text in (figure.definition, figure.limits, figure.error, figure.differs or "."):
        assert text.endswith(".") and "  " not in text
    drawing = figure.draw(study_sample.saved())
    assert drawing.says.endswith(".") and any(c.isdigit() for c in drawing.says)
    assert any(c.isdigit() for c in drawing.samples) and not drawing.samples.endswith(".")
    spec = drawing.chart.to_dict()
    assert spec["width"] == "container"
    assert 0 < _marks(spec) <= POINTS


def test_a_figure_without_its_table_is_listed_with_the_reason() -> None:
    for table in sorted(OWN_TABLES):
        drawn, skipped = draw_figures(STUDY, study_sample.saved(without=(table,)))
        reasons = {item.figure.code: item.reason for item in skipped}
        assert reasons, table
        assert {item.figure.code for item in skipped} == {
            figure.code for figure in STUDY.values() if table in figure.tables
        }
        assert len(drawn) + len(skipped) == 45
        for reason in reasons.values():
            assert table in reason or reason.startswith(("the trace states no ", "the trace does not state "))


def test_rasters_say_how_to_get_their_rows() -> None:
    _, skipped = draw_figures(STUDY, study_sample.saved(without=("raster_rows",)))
    assert {item.reason for item in skipped} == {
        "no table raster_rows in this result; it is written with --rows"
    }


def test_only_a_trace_with_a_few_of_the_studys_tables_gets_the_study() -> None:
    assert not has_study(sample.saved()) and not has_study(Saved())
    assert has_study(study_sample.saved())
    part = study_part(sample.saved())
    assert part.drawn == [] and part.skipped == [] and part.compared == []
    two = study_sample.saved(without=tuple(sorted(OWN_TABLES)[2:]))
    assert not has_study(two)


def test_columns_without_values_are_reasons_not_empty_figures() -> None:
    rows = study_sample.tables()
    load = [{**row, "it_sum_completed": None, "ot_sum_completed": None} for row in rows["load_hour"].rows()]
    stats = [{**row, "n_hit": 0, "hit_sum": 0.0, "cohort": 1} for row in rows["user_stats"].rows()]
    _, skipped = draw_figures(STUDY, study_sample.saved(load_hour=load, user_stats=stats))
    assert {item.figure.code: item.reason for item in skipped} == {
        "A2": "the trace states no token counts",
        "C6": "needs at least 2 cohorts of users with more than 10 requests",
        "C7": "needs at least 2 cohorts of users with more than 10 requests",
        "D4": "none of the users has more than 10 requests with known cached tokens",
    }
