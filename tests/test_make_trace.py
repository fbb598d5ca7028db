"""The maker of Chutes-format traces: same seed, same bytes, and the traits that tests rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.make_trace import DAY_US, GROUP_ROWS, Shape, make

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("trace.parquet", "trace.cohorts.csv", "trace.names.csv")


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    shape = Shape(4_000, models=9, users=40, days=120, seed=3)
    for folder in ("a", "b"):
        make(tmp_path / folder / "trace.parquet", shape)
    make(tmp_path / "c" / "trace.parquet", Shape(4_000, models=9, users=40, days=120, seed=4))
    for name in NAMES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "a" / NAMES[0]).read_bytes() != (tmp_path / "c" / NAMES[0]).read_bytes()


def test_traits(tmp_path: Path) -> None:
    make(tmp_path / "trace.parquet", Shape(150_000, models=40, users=500, days=200))
    file = pq.ParquetFile(tmp_path / "trace.parquet")
    assert file.num_row_groups == -(-150_000 // GROUP_ROWS)
    assert file.schema_arrow.field("user_id").type == pa.string()
    table = file.read()
    started = table.column("started_at").cast(pa.int64()).to_numpy()
    assert started[0] == 0 and 190 * DAY_US < started[-1] < 210 * DAY_US
    gaps = np.diff(started)
    assert (gaps >= 0).all() and 0.01 < (gaps == 0).mean() < 0.04
    assert table.column("rehash_round").unique().to_pylist() == [0, 1, 2]
    counts = np.sort(np.unique_counts(table.column("chute_id").to_pylist()).counts)[::-1]
    assert len(counts) == 40 and counts[0] > 5 * counts[20]
    for name in ("user_id", "instance_id", "completed_at", "it", "ot", "ct", "ttft"):
        assert 0 < table.column(name).null_count < table.num_rows, name
    hours = np.bincount(started // (DAY_US // 24) % 24, minlength=24)
    assert hours.max() > 2 * hours.min()


def test_models_differ(tmp_path: Path) -> None:
    make(tmp_path / "trace.parquet", Shape(150_000, models=8, users=500, days=200))
    table = pq.read_table(tmp_path / "trace.parquet", columns=["chute_id", "it", "ot", "ct"]).to_pandas()
    rows = table[(table.it > 0) & table.ot.notna()]
    medians = rows.groupby("chute_id")[["it", "ot"]].median()
    assert (medians.max() > 2 * medians.min()).all()
    known = rows[rows.ct.notna()]
    hits = (known.ct / known.it).groupby(known.chute_id).mean()
    assert hits.max() > hits.min() + 0.2
