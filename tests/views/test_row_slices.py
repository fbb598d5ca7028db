"""Row slices: the files hold exactly the rows behind the balance tables and the rasters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from servescope import api
from servescope.errors import UsageError
from tests.reference.chutes import duration
from tests.traces import build, rows_of
from tests.views.slicing import slices_of
from tests.views.study import study

if TYPE_CHECKING:
    from pathlib import Path

DAY_US = 86_400_000_000


def lb_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files in the order of their names."""
    files = sorted((folder / "rows" / "lb_rows").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize(("slice_rows", "threads"), [(None, 1), (None, 2), (1, 2), (600, 2)])
def test_lb_rows(tmp_path: Path, slice_rows: int | None, threads: int) -> None:
    trace = study(6, cuts=(1, 2, 700, 701, 1500))
    clock_us = trace.meta.origin.clock_us
    days = (clock_us / DAY_US, (clock_us + 3_000_000_000) / DAY_US)
    chosen = {"lb_models": ["m1", "m3"], "lb_window_days": days}
    with slices_of(slice_rows) as engine:
        api.views(
            trace, out=tmp_path / "out", view=["user_hour"], threads=threads, rows=True, **chosen, **engine
        )
    expected = [
        {
            "request_id": row["request_id"],
            "started_us": row["arrival_us"] + clock_us,
            "duration_s": duration(row),
            **{name: row[name] for name in ("model", "user", "instance")},
            **{name: row[f"{full}_tokens"] for name, full in zip(
                ("it", "ot", "ct"), ("input", "output", "cached"), strict=True)},
            "ttft_s": row["ttft_s"],
        }
        for row in rows_of(trace)
        if row["model"] in ("m1", "m3") and row["arrival_us"] < 3_000_000_000
    ]  # fmt: skip
    assert lb_rows(tmp_path / "out") == expected
    assert None in {row["instance"] for row in expected}


def test_rasters_are_written_beside_the_tables_and_only_when_asked(tmp_path: Path) -> None:
    trace = study(6)
    plain = api.views(trace, out=tmp_path / "out", view=["window_rank", "user_hour"])
    assert not (tmp_path / "out" / "rows").exists()
    api.views(
        trace,
        out=tmp_path / "out",
        view=["window_rank", "user_hour"],
        rows=True,
        raster_user_ranks=(2,),
        raster_model_ranks=(),
    )
    written = pq.read_table(tmp_path / "out" / "tables" / "raster_rows.parquet")
    assert written.schema.metadata[b"doc"].startswith(b"Requests of picked users")
    (second,) = (r for r in plain["window_rank"].rows() if (r["kind"], r["rank"]) == ("user", 2))
    assert set(written["user"].to_pylist()) == {second["name"]}
    assert written.num_rows == second["requests"]
    assert len(lb_rows(tmp_path / "out")) > 2_000


def test_row_slices_need_a_folder_and_users(tmp_path: Path) -> None:
    trace = build({"arrival_us": [0, 1], "input_tokens": [1, 2]})
    with pytest.raises(UsageError, match="need a folder"):
        api.views(trace, rows=True)
    found = api.views(trace, out=tmp_path / "out", rows=True)
    assert "raster_rows is not written: it needs the table window_rank" in found.notes
    assert any(note.startswith("lb_rows is not written") for note in found.notes)
    with pytest.raises(TypeError, match="raster_dyas"):
        api.views(trace, raster_dyas=(1, 2))


def test_a_balance_window_must_be_one() -> None:
    with pytest.raises(UsageError, match="--lb-window"):
        api.views(study(1, 50), view=["user_hour"], lb_window_days=(2, math.nan))
