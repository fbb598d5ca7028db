"""The gap tables and `pair_count` against plain Python, over any slices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.kernels import runs
from servescope.trace import Origin
from servescope.views import ViewOptions, load, model_gaps, run_views
from servescope.views.prologue import prologue
from tests.reference import gaps as slow
from tests.reference.chutes import highlights
from tests.traces import build, rows_of
from tests.views.slicing import slices_of

if TYPE_CHECKING:
    from servescope.trace import Trace

HOUR_US = 3_600_000_000
GAPS_US = st.sampled_from(
    [0, 0, 1, 10, 999, 251_189, 1_000_000, 2_000_000, 59_000_000, 900_000_000, HOUR_US, 9 * 24 * HOUR_US]
)
SMALL_US = st.sampled_from([0, 1, 5, 1_000_000, 1_000_001, 7_000_000])
Keyed = dict[Any, tuple[Any, ...]]
TABLES = (
    "pair_count", "pair_gap", "pair_gap_hist", "model_gap", "model_gap_pair", "model_hour", "user_month_gap",
)  # fmt: skip


@st.composite
def arrivals(draw: st.DrawFn) -> Trace:
    """Up to 120 rows of few users and models, some null, with runs of short gaps, in several parts."""
    rows = draw(st.integers(1, 120))
    steps = draw(st.sampled_from([GAPS_US, SMALL_US]))
    gaps = draw(st.lists(steps, min_size=rows, max_size=rows))
    users = draw(st.sampled_from([("u", "u", None), ("u", "v", "w")]))
    models = draw(st.sampled_from([("m", "m", "m", None), ("m", "n"), ("a", "b", "c", "d", "e")]))
    columns = {
        "arrival_us": np.cumsum([0, *gaps[1:]]).tolist(),
        "user": draw(st.lists(st.sampled_from(users), min_size=rows, max_size=rows)),
        "model": draw(st.lists(st.sampled_from(models), min_size=rows, max_size=rows)),
    }
    cuts = tuple(draw(st.lists(st.integers(0, rows), max_size=20)))
    first_ns = draw(st.sampled_from([0, 3_599_999_999_000, 31 * 86_400_000_000_000 - 5_000_000_000]))
    trace = build(columns, cuts=cuts, origin=Origin("calendar", first_ns))
    # a column that is null throughout would be absent
    return trace.with_meta(columns=[*{*trace.meta.columns, "user", "model"}])


def tables(trace: Trace, slice_rows: int | None, **options: Any) -> dict[str, list[dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch, slices_of(slice_rows) as engine:
        patch.setattr(model_gaps, "WINDOW_CELLS", 7)
        patch.setattr(model_gaps, "STAGED_CELLS", 3)
        patch.setattr(model_gaps, "LEAST_SQUARE", 1)
        patch.setattr(model_gaps, "SQUARES", 2)
        patch.setattr(runs, "CHUNK", 5)
        found, _, _ = run_views(trace, TABLES, threads=1, options=ViewOptions(**options), **engine)
    return {table.name: table.rows() for table in found}


def near(found: tuple[Any, ...], expected: tuple[Any, ...], within: float) -> bool:
    return all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=within, abs_tol=1e-15)
        for a, b in zip(found, expected, strict=True)
    )


def keyed(rows: list[dict[str, Any]], *keys: str) -> Keyed:
    held = {tuple(row[k] for k in keys): tuple(v for k, v in row.items() if k not in keys) for row in rows}
    assert len(held) == len(rows)
    return held


def same(
    found: dict[Any, tuple[Any, ...]], expected: dict[Any, tuple[Any, ...]], counts: int, within: float
) -> None:
    assert {k: v[:counts] for k, v in found.items()} == {k: v[:counts] for k, v in expected.items()}
    for key, row in found.items():
        assert near(row[counts:], expected[key][counts:], within), key


def check(trace: Trace, slice_rows: int | None) -> None:
    rows, clock_us = rows_of(trace), trace.meta.origin.clock_us
    found = tables(trace, slice_rows)
    models = {(m,): v for m, v in slow.model_gap(rows).items()}
    same(keyed(found["model_gap"], "model"), models, 1, 1e-12)
    same(keyed(found["model_hour"], "model", "hour"), slow.model_hour(rows, clock_us), 2, 1e-9)
    same(keyed(found["user_month_gap"], "user", "month"), slow.user_month_gap(rows, clock_us), 1, 0.024)
    lines = highlights(rows, trace.names("model"))
    same(keyed(found["pair_gap"], "user", "model"), slow.pair_gap(rows, lines), 1, 0.024)
    pairs = {key: (n,) for key, n in slow.pair_count(rows).items()}
    assert keyed(found["pair_count"], "user", "model") == pairs
    pooled = [tuple(float(f"{x:.12g}") for x in row.values()) for row in found["pair_gap_hist"]]
    assert pooled == slow.pair_gap_hist(rows)
    assert wide_bins(found["model_gap_pair"]) == slow.model_gap_pair(rows)


def wide_bins(rows: list[dict[str, Any]]) -> dict[tuple[str, int, int], int]:
    held = {}
    for row in rows:
        edges = [math.log10(row[name]) * 20 for name in ("previous_bin_low", "previous_bin_high")]
        edges += [math.log10(row[name]) * 20 for name in ("bin_low", "bin_high")]
        low, high, here, there = (round(edge) for edge in edges)
        assert edges == pytest.approx([low, high, here, there]) and (high, there) == (low + 1, here + 1)
        held[row["model"], low, here] = row["count"]
    return held


@settings(max_examples=60, deadline=None)
@given(arrivals(), st.integers(1, 25))
def test_any_rows_in_any_slices(trace: Trace, slice_rows: int) -> None:
    check(trace, slice_rows)


@pytest.mark.parametrize("slice_rows", [1, 100, 10**6, None])
def test_months_of_many_slices(slice_rows: int | None) -> None:
    random = np.random.default_rng(7)
    rows = 3_000
    gaps = np.where(random.random(rows) < 0.1, 0, 10 ** random.uniform(0, 10.7, rows)).astype(np.int64)
    columns = {
        "arrival_us": np.cumsum([0, *gaps[1:].tolist()]).tolist(),
        "user": random.choice(["u", "v", "w", None], rows, p=[0.6, 0.2, 0.1, 0.1]).tolist(),
        "model": random.choice(["a", "b", "c", "d", None], rows, p=[0.6, 0.2, 0.05, 0.05, 0.1]).tolist(),
    }
    cuts = tuple(range(0, rows, 13))
    trace = build(columns, cuts=cuts, origin=Origin("nominal", 27 * 24 * HOUR_US * 1000 + 123_456_000))
    assert len(slow.user_month_gap(rows_of(trace), trace.meta.origin.clock_us)) > 8
    check(trace, slice_rows)


@settings(max_examples=25, deadline=None)
@given(arrivals(), st.integers(1, 25))
def test_slices_change_nothing(trace: Trace, slice_rows: int) -> None:
    assert tables(trace, slice_rows) == tables(trace, None)


@settings(max_examples=40, deadline=None)
@given(arrivals(), st.lists(st.integers(0, 10**6), min_size=21, max_size=21))
def test_neighbours_merge_in_any_order(trace: Trace, order: list[int]) -> None:
    whole = tables(trace, None)
    for view in {load(name).name: load(name) for name in TABLES}.values():
        context = prologue(trace, [view], ViewOptions())
        sketches = []
        for batch in trace.batches(view.columns):
            sketches.append(view.new(context))
            if batch.rows:
                sketches[-1].update(batch)
        for at in order:
            if len(sketches) > 1:
                at %= len(sketches) - 1
                sketches[at].merge(sketches.pop(at + 1))
        (sketch,) = sketches
        assert {table.name: table.rows() for table in sketch.tables()} == {
            name: whole[name] for name in view.tables
        }
