"""Reading a drawn figure of the study: the rows behind its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servescope.report.study import STUDY
from tests.report import study_sample

if TYPE_CHECKING:
    from servescope.report.figure import Drawing

NAMES = {figure.code: name for name, figure in STUDY.items()}


def rows_of(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The data sets of a specification, those of layers in their order."""
    found = [spec["data"]["values"]] if spec.get("data") else []
    for part in spec.get("layer", ()):
        found += rows_of(part)
    return found


def draw(code: str, saved: Any = None) -> tuple[Drawing, list[dict[str, Any]]]:
    """A figure of the sample by its code, and the rows of its first data set."""
    drawing = STUDY[NAMES[code]].draw(saved or study_sample.saved())
    return drawing, rows_of(drawing.chart.to_dict())[0]
