"""Result tables that the page shows as tables."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from servescope.report.saved import ALL

if TYPE_CHECKING:
    from servescope.report.saved import Saved

GRIDS: dict[str, str] = {
    "type_summary": "By type",
    "arrival_stats": "Arrivals and gaps",
    "length_stats": "Sizes",
    "session_summary": "Sessions",
    "turn_gap_stats": "Pauses",
    "growth": "Growth of sessions",
    "hit_rates": "Hit rates by definition",
    "user_share": "Heaviest users",
    "workload": "What was replayed",
    "block_workload": "Prefix blocks that were replayed",
    "reuse_advice": "Reuse by type, within sessions and across",
    "reuse_fit": "Reuse times by type and turn",
    "reuse_concentration": "Who reuses blocks",
    "reproduce_workload": "Workloads, published and ours",
}
ROWS = 40  # of one table on the page; the file has them all
OURS = ("name", "metric", "part")  # columns whose values are our own words, not the trace's
TURNED_ROWS = 6  # a table with at most so many rows, and more columns, is shown with columns downwards


class Grid(NamedTuple):
    """A table for the page: texts only; `numeric` says which columns are numbers."""

    name: str
    title: str
    doc: str
    header: list[str]
    numeric: list[bool]
    rows: list[list[str]]
    more: int


def cell(value: object) -> str:
    """A value as the page shows it: counts in full, fractions with four significant digits.

    >>> cell(12031), cell(0.366412), cell(None), cell(35123.4)
    ('12,031', '0.3664', '–', '35,123')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value == int(value) or abs(value) >= 10_000:
            return f"{value:,.0f}"
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.1f}"
    return "all" if value == ALL else str(value)


def _words(column: str) -> str:
    return column.replace("_", " ")


def _text(row: dict[str, Any], column: str) -> str:
    return _words(cell(row[column])) if column in OURS else cell(row[column])


def _grid(saved: Saved, name: str, title: str) -> Grid:
    table = saved.tables[name]
    rows: list[dict[str, Any]] = table.data.slice(0, ROWS).to_pylist()
    columns = table.data.column_names
    more = max(0, table.data.num_rows - ROWS)
    if len(rows) <= TURNED_ROWS and len(columns) > len(rows):
        return _turned(Grid(name, title, table.doc, [], [], [], more), rows, columns)
    numeric = [all(isinstance(r[c], int | float) or r[c] is None for r in rows) for c in columns]
    texts = [[_text(row, column) for column in columns] for row in rows]
    return Grid(name, title, table.doc, [_words(c) for c in columns], numeric, texts, more)


def _turned(grid: Grid, rows: list[dict[str, Any]], columns: list[str]) -> Grid:
    """The grid with one line a column; leading text columns name the rows and become the header."""
    keys = list(takewhile(lambda column: all(isinstance(row[column], str) for row in rows), columns))
    header = ["", *(" · ".join(_text(row, key) for key in keys) for row in rows)] if keys else []
    lines = [[_words(c), *(cell(row[c]) for row in rows)] for c in columns if c not in keys]
    return grid._replace(header=header, numeric=[False] + [True] * len(rows), rows=lines)


def grids(saved: Saved) -> list[Grid]:
    """The tables that are there, in the order of the page."""
    return [_grid(saved, name, title) for name, title in GRIDS.items() if saved.has(name)]
