"""Published numbers of the study beside ours: a table of findings, and marks over figures.

The numbers lie in `data/chutes/published.json`; ATTRIBUTION.md beside it says whose they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import msgspec
import pyarrow as pa

from servescope.errors import unknown_name
from servescope.report.figure import HEIGHT, Drawing, NotDrawn, chart
from servescope.report.grids import cell
from servescope.report.saved import Saved
from servescope.report.study.measures import MEASURES
from servescope.result import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

DATA = Path(__file__).resolve().parents[2] / "data"
PUBLISHED: dict[str, str] = {"chutes": "chutes/published.json"}
KINDS = {
    "figure": pa.string(),
    "finding": pa.string(),
    "published": pa.string(),
    "published_low": pa.float64(),
    "published_high": pa.float64(),
    "ours": pa.float64(),
    "deviation": pa.float64(),
}
DOC = (
    "Published findings beside ours. published_low, published_high: the value or range that the finding "
    "states, "
    "null where it states no bound. ours: the same measure here, null where the tables do not give it. "
    "deviation: "
    "how far ours lies outside, relative to the nearer end (the difference itself where that end is 0); 0 "
    "inside."
)


@dataclass(frozen=True)
class Published:
    """A study's published numbers: name, whose they are, findings in order, marks over figures."""

    name: str
    credit: str
    findings: list[Row]
    marks: list[Row]


def published(name: str) -> Published:
    """The published numbers of a study. Raises UsageError for an unknown one."""
    if name not in PUBLISHED:
        raise unknown_name("study", name, PUBLISHED)
    return Published(name, **msgspec.json.decode((DATA / PUBLISHED[name]).read_bytes()))


def deviation(ours: float | None, low: float | None, high: float | None) -> float | None:
    """How far a number lies outside a range, relative to its nearer end; None where either is unknown.

    >>> deviation(110.0, 100.0, 100.0), deviation(5.0, None, 10.0), deviation(-2.0, 0.0, None)
    (0.1, 0.0, -2.0)
    """
    if ours is None or (low is None and high is None):
        return None
    end = low if low is not None and ours < low else (high if high is not None and ours > high else None)
    if end is None:
        return 0.0
    return (ours - end) / abs(end) if end else ours - end


def compared(saved: Saved, source: Published) -> Table:
    """Table `compare_NAME`: each published finding beside the same measure of this result."""
    rows = []
    for finding in source.findings:
        ours = measured(saved, finding["measure"])
        ends = (finding["low"], finding["high"])
        texts = (finding["figure"], finding["finding"], finding["published"])
        rows.append((*texts, *ends, ours, deviation(ours, *ends)))
    columns = zip(*rows, strict=True)
    arrays = {name: pa.array(list(c), kind) for (name, kind), c in zip(KINDS.items(), columns, strict=True)}
    return Table(f"compare_{source.name}", pa.table(arrays), DOC)


def compared_tables(tables: Sequence[Table], name: str | None) -> list[Table]:
    """The comparison with a study's numbers, [] for none. Raises UsageError for an unknown study."""
    return [compared(Saved({table.name: table for table in tables}), published(name))] if name else []


def measured(saved: Saved, measure: str) -> float | None:
    """A measure of this result, None where its tables or columns do not give it."""
    tables, work_out = MEASURES[measure]
    if not all(saved.has(table) for table in tables):
        return None
    try:
        value = work_out(saved)
    except (NotDrawn, KeyError):
        return None
    return None if value is None or not math.isfinite(value) else float(value)


def shown(table: Table) -> list[dict[str, str]]:
    """The comparison as texts for the page."""
    rows = []
    for row in table.rows():
        texts = {name: row[name] for name in ("figure", "finding", "published")}
        off = row["deviation"]
        known = "–" if off is None else ("within" if off == 0 else f"{100 * off:+,.3g}%")
        if off and 0.0 in (row["published_low"], row["published_high"]):
            known = f"{off:+.3g}"
        rows.append({**texts, "ours": cell(row["ours"]), "deviation": known})
    return rows


def overlaid(drawing: Drawing, code: str, source: Published) -> Drawing:
    """The drawing with the published marks of its figure over it, unchanged where there are none."""
    marks = [mark for mark in source.marks if mark["figure"] == code]
    if not marks:
        return drawing
    layers: list[Any] = [drawing.chart]
    for kind, axes in (("point", {"x", "y"}), ("rule", {"x"}), ("rule", {"y"})):
        here = [mark for mark in marks if set(mark) & {"x", "y"} == axes]
        if here:
            layers += _marks(here, kind, axes)
    said = "; ".join(mark["text"] for mark in marks)
    remark = f"{drawing.remark} Over it, in ink, what was published ({said}).".strip()
    return replace(drawing, chart=alt.layer(*layers), remark=remark)


def _marks(rows: list[Row], kind: str, axes: set[str]) -> list[Any]:
    base = chart(rows, HEIGHT)
    places = {axis: f"{axis}:Q" for axis in sorted(axes)}
    if kind == "point":
        drawn = base.mark_point(style="published", shape="diamond", size=70, filled=True)
        text = base.mark_text(style="published-text", align="right", dx=-9, dy=-7)
    else:
        drawn = base.mark_rule(style="published", strokeDash=[2, 3])
        across = axes == {"y"}
        text = base.mark_text(
            style="published-text", align="left", dx=4, dy=-6 if across else 0, baseline="middle"
        )
        places_text = {"x": alt.value(0)} if across else {"y": alt.value(10)}
        return [drawn.encode(**places), text.encode(**places, **places_text, text="text:N")]
    return [drawn.encode(**places), text.encode(**places, text="text:N")]
