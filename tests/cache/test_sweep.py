"""The sweep as a whole: cells equal replays one by one, in any number of threads, and on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from servescope.cache.capacity import Size
from servescope.cache.choice import parse_choice
from servescope.cache.objects import object_workload
from servescope.cache.options import SHARES, CacheOptions, options_of
from servescope.cache.policies import lru
from servescope.cache.result import result_tables
from servescope.cache.sweep import Cell, Counter, Stopped, sweep
from servescope.errors import UsageError
from tests.cache.sessions import growing_trace

if TYPE_CHECKING:
    from servescope.result import Table

POLICIES = ("fifo,lru,s3fifo,bound",)
SOME = CacheOptions(policies=POLICIES, capacities=("1%,5%,40%",), resamples=50)


def tables_of(options: CacheOptions, **running: Any) -> dict[str, Table]:
    tables, _, _ = result_tables(growing_trace(), options, **running)
    return {table.name: table for table in tables}


def without_times(tables: dict[str, Table]) -> dict[str, Any]:
    return {
        name: [{key: value for key, value in row.items() if key != "seconds"} for row in table.rows()]
        for name, table in tables.items()
    }


def test_a_row_is_what_a_replay_counts() -> None:
    made = object_workload(growing_trace(), warmup=0.25)
    options = CacheOptions(policies=POLICIES, capacities=("100tokens", "900tokens"), warmup=0.25)
    rows = [row for row in tables_of(options)["cache"].rows() if row["policy"] == "lru"]
    assert [row["capacity_tokens"] for row in rows] == [100, 900]
    for row in rows:
        hits = np.zeros(made.rows, np.uint8)
        state = lru.new(made.requests, row["capacity_tokens"], 0)
        lru.run(state, made.requests, hits, 0, made.first)
        before = int(state.counts[2])
        lru.run(state, made.requests, hits, made.first, made.rows)
        counted = hits[made.first :].astype(bool)
        assert row["requests"] == len(counted) == 450
        assert row["request_hits"] == counted.sum()
        assert row["hit_tokens"] == made.credits[made.first :][counted].sum()
        assert row["input_tokens"] == made.requests.sizes[made.first :].sum()
        assert row["evictions"] == state.counts[2] - before
        assert row["peak_tokens"] == state.counts[3]
        assert row["token_hit_ratio"] == row["hit_tokens"] / row["input_tokens"]
        assert row["block_references"] is None and row["credit"] == "prefix"


def test_rows_are_by_policy_then_size_and_the_bound_bounds_them() -> None:
    rows = tables_of(SOME)["cache"].rows()
    assert [row["policy"] for row in rows] == [p for p in POLICIES[0].split(",") for _ in range(3)]
    bound = {row["capacity_tokens"]: row for row in rows if row["policy"] == "bound"}
    for row in rows:
        best = bound[row["capacity_tokens"]]
        assert row["request_hits"] <= best["request_hits"] and row["hit_tokens"] <= best["hit_tokens"]
        assert row["distance_to_bound"] is None or row["distance_to_bound"] <= 1
        assert (row["filled"] is None) == (row["policy"] == "bound")
    ends = {row["policy"]: row["distance_to_bound"] for row in rows[1::3]}
    assert ends["lru"] == 0 and ends["bound"] == 1


def test_no_bound_or_no_lru_no_distance() -> None:
    for policies in ("lru,fifo", "fifo,bound"):
        rows = tables_of(CacheOptions(policies=(policies,), capacities=("5%",)))["cache"].rows()
        assert all(row["distance_to_bound"] is None for row in rows)


def test_threads_and_parts_change_nothing() -> None:
    one = without_times(tables_of(SOME, threads=1))
    assert without_times(tables_of(SOME, threads=3)) == one
    again, _, _ = result_tables(growing_trace(cuts=(7, 300)), SOME, threads=2)
    assert without_times({table.name: table for table in again}) == one


@pytest.mark.slow
def test_ray_gives_the_same_tables() -> None:
    pytest.importorskip("ray")
    assert without_times(tables_of(SOME, threads=2, engine="ray")) == without_times(tables_of(SOME))


def test_seeds_move_intervals_and_nothing_else() -> None:
    other = CacheOptions(policies=POLICIES, capacities=("1%,5%,40%",), resamples=50, seed=11)
    one, two = without_times(tables_of(SOME)), without_times(tables_of(other))
    assert one["cache"] == two["cache"]
    assert one["policy_differences"] != two["policy_differences"]
    assert [r["difference"] for r in one["policy_differences"]] == [
        r["difference"] for r in two["policy_differences"]
    ]


def test_a_cache_that_never_fills_is_there_and_said_so() -> None:
    tables, notes, _ = result_tables(growing_trace(), CacheOptions(policies=("lru",), capacities=("10000%",)))
    (row,) = tables[0].rows()
    assert row["filled"] is False and row["evictions"] == 0
    assert any("never filled" in note for note in notes)
    (about,) = tables[1].rows()
    assert row["request_hit_ratio"] == about["request_hit_ceiling"]
    assert row["token_hit_ratio"] == about["token_hit_ceiling"]


def test_no_cache_at_all_hits_nothing() -> None:
    options = CacheOptions(policies=POLICIES, capacities=("0tokens",))
    assert {row["request_hits"] for row in tables_of(options)["cache"].rows()} == {0}


def test_models_are_swept_apart() -> None:
    options = CacheOptions(policies=("lru",), capacities=("10%",), models=("m1", "m0"))
    tables = tables_of(options)
    assert [row["model"] for row in tables["cache"].rows()] == ["m1", "m0"]
    assert sum(row["requests"] for row in tables["workload"].rows()) == 600
    with pytest.raises(UsageError, match=r'no model "m9".*Its models: m\d \(\d+ requests\)'):
        tables_of(CacheOptions(models=("m9",)))


def test_left_out_the_usual_set_is_run() -> None:
    rows = tables_of(CacheOptions(resamples=5))["cache"].rows()
    assert len({row["policy"] for row in rows}) == 7
    assert len({row["capacity_tokens"] for row in rows}) == len(SHARES)


def test_ttl_fills_in_or_adds_its_policy() -> None:
    for policies in ("ttl,lru", "lru"):
        tables = tables_of(CacheOptions(policies=(policies,), capacities=("10%",), ttl_s=5.0))
        assert {row["policy"] for row in tables["cache"].rows()} == {"lru", "ttl:ttl_s=5.0"}


def test_bytes_stand_beside_tokens_where_a_token_is_known() -> None:
    options = CacheOptions(policies=("lru",), capacities=("1MiB",), bytes_per_token=2048)
    (row,) = tables_of(options)["cache"].rows()
    assert (row["capacity_tokens"], row["capacity_bytes"]) == (512, 2**20)
    with pytest.raises(UsageError, match="--bytes-per-token"):
        tables_of(CacheOptions(policies=("lru",), capacities=("1MiB",)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"capacity": "10"}, "no unit"),
        ({"credit": "blocks"}, 'unknown credit "blocks"'),
        ({"warmup": 1.0}, "--warmup"),
        ({"ttl_s": 0.0}, "--ttl"),
        ({"seed": -1}, "--seed"),
        ({"kv_model": "no-such-model"}, "no-such-model"),
        ({"kv_dtype": "fp8"}, "--kv-model"),
        ({"kv_model": "x", "bytes_per_token": 3}, "keep one"),
        ({"window_days": (2.0, 1.0)}, "--window"),
        ({"rule": "papr"}, "Did you mean paper"),
    ],
)
def test_what_is_wrong_whatever_the_trace_is_refused_first(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        options_of(given)


def test_progress_counts_every_request_of_every_cell() -> None:
    seen: list[tuple[int, int]] = []
    made = object_workload(growing_trace(100))
    cells = [Cell(0, parse_choice(name), Size(50, None, None, ())) for name in ("lru", "fifo")]
    told = list(sweep([made], cells, seed=1, threads=2, progress=lambda done, of: seen.append((done, of))))
    assert len(told) == 2
    assert max(seen) == (200, 200)


def test_a_sweep_given_up_ends_its_cells() -> None:
    counter = Counter(10)
    counter.add(4)
    counter.give_up()
    with pytest.raises(Stopped):
        counter.add(1)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown engine"):
        list(sweep([], [], seed=1, threads=1, engine="rya"))
