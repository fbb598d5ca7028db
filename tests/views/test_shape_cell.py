"""`shape_cell` and `hit_cell` against plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from servescope.kernels import pages
from servescope.views import model_gaps, run_views
from tests.reference import balance as slow
from tests.traces import build, rows_of, traces
from tests.views.study import as_bytes, bins, study, tables

if TYPE_CHECKING:
    from servescope.trace import Trace

NAMES = ("shape_cell", "hit_cell")


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_a_seeded_trace(seed: int) -> None:
    trace = study(seed)
    made = tables(trace, *NAMES)
    found = bins(made["shape_cell"].rows(), "it_low", "ot_low", "metric")
    assert found == slow.shape_cells(rows_of(trace))
    assert len(found) == 2 * 5 * 4
    hits = bins(made["hit_cell"].rows(), "it_low", "hit_tenth")
    assert hits == slow.hit_cells(rows_of(trace))
    assert {tenth for _, tenth in hits} > {0.0, 1.0}


@given(traces(need=("input_tokens", "output_tokens", "cached_tokens", "ttft_s")))
def test_cells(trace: Trace) -> None:
    made = tables(trace, *NAMES)
    assert bins(made["shape_cell"].rows(), "it_low", "ot_low", "metric") == slow.shape_cells(rows_of(trace))
    assert bins(made["hit_cell"].rows(), "it_low", "hit_tenth") == slow.hit_cells(rows_of(trace))


def test_few_pages_and_long_requests() -> None:
    trace = study(4)
    rows = rows_of(trace)
    longer = {
        name: [None if row[name] is None else row[name] * 40 for row in rows]
        for name in ("input_tokens", "output_tokens", "cached_tokens")
    }
    same = {name: [row[name] for row in rows] for name in ("arrival_us", "completed_us", "ttft_s")}
    for trace in (build({**same, **longer}), build({**same, **longer, "ttft_s": [1e-6] * len(rows)})):
        made = tables(trace, *NAMES)
        found = bins(made["shape_cell"].rows(), "it_low", "ot_low", "metric")
        assert found == slow.shape_cells(rows_of(trace))
        assert {it_low >= 2_000 << 7 for it_low, _, _ in found} == {False, True}
        hits = bins(made["hit_cell"].rows(), "it_low", "hit_tenth")
        assert hits == slow.hit_cells(rows_of(trace))


@pytest.mark.parametrize("limit", [400, 1_000])
def test_counts_move_before_they_could_overflow(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (*NAMES, "model_gap_pair")
    trace = study(5, cuts=(300, 600, 900, 1_200, 1_500, 1_800, 2_100, 2_400, 2_700))
    whole = as_bytes(tables(trace, *names))
    monkeypatch.setattr(pages, "LIMIT", limit)
    monkeypatch.setattr(model_gaps, "LEAST_SQUARE", 1)
    assert as_bytes(tables(trace, *names)) == whole


def test_slices_and_threads_give_the_same_bytes() -> None:
    trace = study(5, cuts=(1, 2, 700, 701, 1500))
    whole = as_bytes(tables(trace, *NAMES))
    for rows, threads in ((1, 1), (1, 2), (600, 2)):
        assert as_bytes(tables(trace, *NAMES, slice_rows=rows, threads=threads)) == whole


def test_without_any_latency_there_is_no_table_but_a_note() -> None:
    lengths = {"arrival_us": [0], "input_tokens": [5], "output_tokens": [6]}
    made, notes, _ = run_views(build(lengths), ["shape_cell"])
    assert made == []
    assert notes == ["table shape_cell is left out: the source has no completed_us and no ttft_s"]
    assert tables(build({**lengths, "ttft_s": [1.0]}), "shape_cell")["shape_cell"].data.num_rows == 1


def test_edges_of_cells_and_of_the_filters() -> None:
    columns = {
        "arrival_us": [0] * 4,
        "input_tokens": [1_999, 2_000, 2**31 - 1, 2_000],
        "output_tokens": [199, 200, 2**31 - 1, 0],
        "completed_us": [1_000_000, 300_000_000, 299_999_999, 1_000_000],
        "cached_tokens": [1_998, 2_000, 2**31 - 1, 200],
        "ttft_s": [0.5, 300.0, 1.0, 1.0],
    }
    made = tables(build(columns), *NAMES)
    cells = [(r["it_low"], r["ot_low"], r["metric"], r["count"]) for r in made["shape_cell"].rows()]
    last = ((2**31 - 1) // 2000 * 2000, (2**31 - 1) // 200 * 200)
    assert cells == [(0, 0, "duration", 1), (0, 0, "ttft", 1), (*last, "duration", 1), (*last, "ttft", 1)]
    hits = [(r["it_low"], r["hit_tenth"]) for r in made["hit_cell"].rows()]
    assert hits == [(0, 0.9), (2_000, 0.1), (last[0], 1.0)]
