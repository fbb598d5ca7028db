"""The study's figures as a table: 45 views of a year of serving, and when a trace gets them.

Source: Nixon et al., "A Year in LLM Serving: Workload Evolution, Caching and Load-Balancing",
arXiv 2608.13573. Definitions follow its artifact; `differs` says where we leave it and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from servescope.report.charts import FIGURES, draw_figures
from servescope.report.study import (
    balance_load,
    balance_users,
    caching,
    evolution,
    gaps,
    load_days,
    load_values,
    rhythm,
    users,
)
from servescope.report.study.compare import compared, overlaid, published, shown

if TYPE_CHECKING:
    from servescope.report.charts import Drawn, Skipped
    from servescope.report.figure import Figure
    from servescope.report.saved import Saved

VIEWS = (load_days, load_values, users, rhythm, gaps, evolution, caching, balance_load, balance_users)
STUDY: dict[str, Figure] = {name: figure for view in VIEWS for name, figure in view.FIGURES.items()}
# tables that only the study's figures read: a trace that gives a few of them gets the study
OWN_TABLES = {table for figure in STUDY.values() for table in figure.tables} - {
    table for figure in FIGURES.values() for table in figure.tables
}
FEW = 3
ABOUT = (
    "The figures of a published year of serving, drawn from the tables of this trace: Nixon et al., “A Year "
    "in LLM "
    "Serving: Workload Evolution, Caching and Load-Balancing” (arXiv 2608.13573). Each says how it is "
    "defined, what "
    "was counted, how far its values can be off, and where it differs from the published figure on purpose."
)


class StudyPart(NamedTuple):
    """The study's part of the page: figures, those not drawn, and published numbers beside ours.

    credit  whose numbers the published ones are, "" without any
    """

    drawn: list[Drawn]
    skipped: list[Skipped]
    compared: list[dict[str, str]]
    credit: str


def has_study(saved: Saved) -> bool:
    """Whether the result holds at least `FEW` of the tables that the study alone reads."""
    return sum(saved.has(table) for table in OWN_TABLES) >= FEW


def study_part(saved: Saved, compare: str | None = None) -> StudyPart:
    """Draw every figure of the study that the tables allow; the others are listed with the reason.

    compare  whose published numbers are laid over; None: as the result's own parameters say

    Empty where the result has too few of the study's tables and nothing is compared.
    """
    name = compare or (saved.document.get("inputs") or {}).get("compare")
    drawn, skipped = draw_figures(STUDY, saved) if has_study(saved) else ([], [])
    if not name:
        return StudyPart(drawn, skipped, [], "")
    source = published(name)
    drawn = [item._replace(drawing=overlaid(item.drawing, item.figure.code, source)) for item in drawn]
    return StudyPart(drawn, skipped, shown(compared(saved, source)), source.credit)
