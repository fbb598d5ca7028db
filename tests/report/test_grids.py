"""Tables on the page: which way they stand, how values read."""

from __future__ import annotations

import pyarrow as pa

from servescope.report.grids import ROWS, cell, grids
from servescope.report.saved import Saved, printable
from servescope.result import Table
from tests.report import sample


def _grids(saved: Saved) -> dict[str, tuple[list[str], list[list[str]]]]:
    return {grid.name: (grid.header, grid.rows) for grid in grids(saved)}


def test_a_few_wide_rows_stand_upright_with_their_names_above() -> None:
    header, rows = _grids(sample.saved())["type_summary"]
    assert header == ["", "all", "text", printable(sample.HOSTILE)]
    assert rows[0] == ["requests", "1,080", "720", "360"]
    assert rows[1] == ["requests per s", "0.45", "0.3", "0.15"]


def test_a_single_row_without_a_name_has_no_header() -> None:
    header, rows = _grids(sample.saved())["session_summary"]
    assert header == [] and rows[0] == ["sessions", "100"]


def test_our_own_words_are_spelled_out_and_those_of_the_trace_are_not() -> None:
    names = [{"name": f"requests_with_{i}", "value": 0.5} for i in range(7)]
    users = [{"rank": i, "user": f"u_{i}", "requests": i} for i in range(1, 8)]
    found = _grids(sample.saved(hit_rates=names, user_share=users))
    assert found["hit_rates"][1][0] == ["requests with 0", "0.5"]
    assert found["user_share"] == (
        ["rank", "user", "requests"],
        [[str(i), f"u_{i}", str(i)] for i in range(1, 8)],
    )


def test_long_tables_are_cut_and_counted() -> None:
    rows = [{"rank": i, "user": f"u{i}"} for i in range(ROWS + 3)]
    grid = next(g for g in grids(Saved({"user_share": Table("user_share", pa.Table.from_pylist(rows))})))
    assert (len(grid.rows), grid.more, grid.numeric) == (ROWS, 3, [True, False])


def test_values_read_as_what_they_are() -> None:
    values = (None, True, 12031, 0.366412, 1234.56, 35123.4, 3.0, float("nan"), "*", "a")
    assert [cell(v) for v in values] == [
        "–",
        "yes",
        "12,031",
        "0.3664",
        "1,234.6",
        "35,123",
        "3",
        "nan",
        "all",
        "a",
    ]
