"""The tables of a Chutes-format file against SQL over the same file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks.make_trace import Shape, make

from servescope import api
from servescope.kernels.histogram import EDGES, LOG_BINS, quantile
from tests.reference import study_sql as sql

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.result import Table

    Tables = dict[str, Table]

NAMES = (
    "shape_cell", "hit_cell", "user_stats", "model_stats", "instance_minute", "load_latency_cell",
    "user_hour", "window_rank",
)  # fmt: skip
WITHIN = 0.024


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, sql.Study]:
    """Our tables and the database of one seeded trace with rotations, ties and nulls."""
    path: Path = tmp_path_factory.mktemp("study") / "trace.parquet"
    make(path, Shape(rows=220_000, models=60, users=900, days=100, seed=3))
    return api.views(path, view=NAMES, threads=2).tables, sql.Study(str(path))


def counts(found: list[dict[str, Any]], *keys: str) -> Counter[tuple[Any, ...]]:
    """Key columns -> sum of counts."""
    total: Counter[tuple[Any, ...]] = Counter()
    for row in found:
        total[tuple(row[key] for key in keys)] += row["count"]
    return total


def p(found: list[dict[str, Any]], q: float) -> float | None:
    """A quantile of bin rows."""
    held = np.zeros(LOG_BINS, np.int64)
    for row in found:
        held[int(np.searchsorted(EDGES, row["bin_low"])) + 1 if row["bin_high"] else 0] += row["count"]
    return quantile(held, q)


def test_cells(both: tuple[Tables, sql.Study]) -> None:
    made, study = both
    shapes = made["shape_cell"].rows()
    assert counts(shapes, "it_low", "ot_low", "metric") == {row[:3]: row[3] for row in study.rows(sql.SHAPES)}
    cells = defaultdict(list)
    for row in shapes:
        if row["metric"] == "duration":
            cells[row["it_low"], row["ot_low"]].append(row)
    for it_low, ot_low, middle, n in study.rows(sql.SHAPE_MEDIANS):
        if n >= 50:
            assert p(cells[it_low, ot_low], 0.5) == pytest.approx(middle, rel=WITHIN)
    hits = counts(made["hit_cell"].rows(), "it_low", "hit_tenth")
    assert hits == {row[:2]: row[2] for row in study.rows(sql.HITS)} and len(hits) > 50


@pytest.mark.parametrize(("table", "key"), [("user_stats", "u"), ("model_stats", "chute_id")])
def test_keys(both: tuple[Tables, sql.Study], table: str, key: str) -> None:
    made, study = both
    expected = {row[0]: row[1:] for row in study.rows(sql.KEYS, key=key)}
    found = made[table].rows()
    assert len(found) == len(expected) > 50
    for row in found:
        n_shape, it_median, ot_median, n_hit, hit_sum, first_us = expected[next(iter(row.values()))]
        assert (row["n_shape"], row["n_hit"]) == (n_shape, n_hit)
        for name, value in (("it_median", it_median), ("ot_median", ot_median)):
            assert row[name] == (None if value is None else pytest.approx(value, rel=WITHIN))
        assert row["hit_sum"] == pytest.approx(hit_sum or 0.0, abs=n_hit * 2.0**-32 + 1e-9)
        assert row.get("first_start_us", first_us) == first_us


@pytest.mark.parametrize(("table", "query"), [("instance_minute", sql.MINUTES), ("user_hour", sql.HOURS)])
def test_sums(both: tuple[Tables, sql.Study], table: str, query: str) -> None:
    made, study = both
    found = [tuple(row.values()) for row in made[table].rows()]
    assert Counter(found) == Counter(study.rows(query)) and len(found) > 10_000


def test_latency_by_load(both: tuple[Tables, sql.Study]) -> None:
    made, study = both
    cells = defaultdict(list)
    for row in made["load_latency_cell"].rows():
        place = (round(10 * math.log10(row[name])) for name in ("load_low", "tokens_low"))
        cells[row["model"], row["metric"], *place].append(row)
    expected = {row[:4]: row[4:] for row in study.rows(sql.LOADS)}
    assert {key: sum(row["count"] for row in own) for key, own in cells.items()} == {
        key: n for key, (n, _) in expected.items()
    }
    for key, (n, high) in expected.items():
        if n >= 30:
            assert p(cells[key], 0.9) == pytest.approx(high, rel=WITHIN)


@pytest.mark.parametrize(
    ("kind", "key", "other", "days"), [("user", "u", "chute_id", 37), ("model", "chute_id", "u", 61)]
)
def test_ranks(both: tuple[Tables, sql.Study], kind: str, key: str, other: str, days: int) -> None:
    made, study = both
    expected = study.rows(sql.RANKS, key=key, other=other, days=days)
    expected.sort(key=lambda row: (-row[1], row[0]))
    found = [row for row in made["window_rank"].rows() if row["kind"] == kind]
    assert [(r["name"], r["requests"], r["distinct"]) for r in found] == expected
    assert [row["rank"] for row in found] == list(range(1, len(expected) + 1))
