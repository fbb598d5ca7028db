"""`window_rank` and `raster_rows` against plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.trace import Origin
from servescope.views import ViewOptions, raster_rows
from tests.reference import rasters as slow
from tests.traces import build, rows_of, traces
from tests.views.study import as_bytes, study, tables

if TYPE_CHECKING:
    from servescope.trace import Trace

DAY_US = 86_400_000_000
ALWAYS = (-(10**7), 10**7)
EVER = (float("-inf"), float("inf"))


def drawn(trace: Trace, **options: Any) -> list[dict[str, Any]]:
    ranks = tables(trace, "window_rank", **options)["window_rank"]
    pieces = raster_rows.raster_rows(trace, ranks, ViewOptions(**options))
    return [row for piece in pieces for row in piece.to_pylist()]


def check(trace: Trace, days: tuple[float, float], window: tuple[float, float], most: int) -> None:
    options: dict[str, Any] = {"raster_user_days": days, "raster_model_days": days}
    options |= {"raster_user_ranks": (1, 2), "raster_model_ranks": (1, 3)}
    rows = rows_of(trace)
    found = [tuple(r.values()) for r in tables(trace, "window_rank", **options)["window_rank"].rows()]
    expected = []
    for kind in ("user", "model"):
        ranked = slow.ranked(rows, kind, window)
        expected += [(kind, name, rank, *counts) for rank, (name, *counts) in enumerate(ranked, 1)]
    assert found == expected
    written = drawn(trace, **options)
    clock_us = trace.meta.origin.clock_us
    for kind, ranks in (("user", (1, 2)), ("model", (1, 3))):
        for rank in ranks:
            own = [r for r in written if (r["kind"], r["rank"]) == (kind, rank)]
            wanted = slow.raster(rows, kind, rank, window, most)
            names = ("user", "model", "index", "day")
            found_rows = [{n: r[n] for n in names} | {"us": r["started_us"] - clock_us} for r in own]
            assert found_rows == wanted


@given(traces(need=("user", "model")), st.integers(1, 3))
def test_small_traces(trace: Trace, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raster_rows, "MOST_USERS", most)
        check(trace, ALWAYS, EVER, most)


@pytest.mark.parametrize("most", [2, 800])
def test_a_window_of_a_seeded_trace(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raster_rows, "MOST_USERS", most)
    trace = study(3, cuts=(0, 0, 10, 500, 1200, 1201, 2900), gap_us=3_000_000_000)
    first = (trace.meta.origin.clock_us + 20 * DAY_US) / DAY_US
    check(trace, (first, first + 40), (20 * DAY_US, 60 * DAY_US), most)
    assert len(drawn(trace)) > 200


@pytest.mark.parametrize("spans", [((10, 40), (20, 60)), ((20, 60), (30, 35)), ((0, 15), (20, 40))])
def test_users_and_models_have_windows_of_their_own(spans: tuple[tuple[int, int], tuple[int, int]]) -> None:
    trace = study(3, cuts=(0, 500, 1200), gap_us=3_000_000_000)
    zero = trace.meta.origin.clock_us / DAY_US
    users, models = ((zero + first, zero + last) for first, last in spans)
    found = tables(trace, "window_rank", raster_user_days=users, raster_model_days=models)["window_rank"]
    for kind, (first, last) in zip(("user", "model"), spans, strict=True):
        ranked = slow.ranked(rows_of(trace), kind, (first * DAY_US, last * DAY_US))
        own = [row for row in found.rows() if row["kind"] == kind]
        assert [(row["name"], row["requests"], row["distinct"]) for row in own] == ranked
        assert len(ranked) > 2


def test_a_model_is_picked_by_its_name() -> None:
    trace = study(4)
    rows = drawn(trace, raster_models=("m3",), raster_user_ranks=())
    assert {row["model"] for row in rows} == {"m3"} and len({row["index"] for row in rows}) == 4
    with pytest.raises(UsageError, match='unknown model in the raster window "m9"'):
        drawn(trace, raster_models=("m9",))
    with pytest.raises(UsageError, match="counts from 1"):
        drawn(trace, raster_user_ranks=(0,))
    assert drawn(trace, raster_user_ranks=(99,), raster_model_ranks=()) == []


def test_slices_and_threads_give_the_same_bytes() -> None:
    trace = study(5, cuts=(1, 2, 700, 701, 1500))
    whole = as_bytes(tables(trace, "window_rank"))
    for rows, threads in ((1, 1), (1, 2), (600, 2)):
        assert as_bytes(tables(trace, "window_rank", slice_rows=rows, threads=threads)) == whole


def test_the_default_windows_end_with_the_last_request() -> None:
    starts = [0, 30 * DAY_US, 60 * DAY_US, 61 * DAY_US]
    trace = build({"arrival_us": starts, "user": ["a"] * 4, "model": ["m"] * 4}, origin=Origin("nominal"))
    found = {r["kind"]: r["requests"] for r in tables(trace, "window_rank")["window_rank"].rows()}
    assert found == {"user": 3, "model": 3}
