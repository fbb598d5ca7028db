"""What a sweep cannot tell, from what was replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import servescope as ss
from servescope.cache.options import CacheOptions
from servescope.cache.result import result_tables
from tests.cache.sessions import growing_trace
from tests.traces import build

if TYPE_CHECKING:
    from pathlib import Path


def limits(trace: Any, **options: Any) -> dict[str, str]:
    given = {"policies": ("lru",), "capacities": ("10%",), **options}
    tables, _, _ = result_tables(trace, CacheOptions(**given))
    (table,) = [table for table in tables if table.name == "limits"]
    return {row["limit"].split(":")[0]: row["because"] for row in table.rows()}


def test_rebuilt_sessions_the_credit_and_the_cold_start_are_limits() -> None:
    found = limits(growing_trace(60), credit="prompt")
    assert found["no certain hits"] == "sessions are rebuilt (paper)"
    assert found["no tokens saved"] == "credit prompt"
    assert "no steady state" in found and "no fleet" in found
    assert "no typical user" not in found


def test_stated_sessions_a_warm_up_and_one_heavy_user() -> None:
    columns = {
        "arrival_us": [0, 1, 2, 3],
        "user": ["a", "a", "a", "b"],
        "session_id": [0, 0, 0, 1],
        "input_tokens": [5, 6, 7, 8],
    }
    found = limits(build(columns), warmup=0.25)
    assert found["no typical user"] == "one user sends 67%"
    assert not {"no certain hits", "no steady state", "no tokens saved"} & set(found)
    del columns["user"]
    assert limits(build(columns))["no spread over users"] == "no request has a user"


def test_prompts_that_hold_nothing_and_turns_from_block_ids() -> None:
    columns: dict[str, Any] = {
        "arrival_us": [0, 1_000_000, 2_000_000, 3_000_000],
        "block_ids": [[1], [1, 2], [3], [3]],
        "input_tokens": [16, 32, 16, 16],
        "user": ["a", "a", "a", "b"],
    }
    found = limits(build(columns, block_tokens=16), capacities=("2 blocks",))
    assert found["no memory of requests in flight"] == "requests let go of their blocks as soon as they come"
    assert found["no certain turns"] == "turns are derived from block ids"
    assert found["no typical user"] == "one user sends 75%"
    assert {"no fleet", "no steady state"} < set(found) and "no certain hits" not in found
    columns |= {
        "turn": [1, 2, 1, 1],
        "session_id": [0, 0, 1, 2],
        "completed_us": [500_000 + t for t in columns["arrival_us"]],
    }
    more = limits(build(columns, block_tokens=16), capacities=("2 blocks",), pin=0.0, warmup=0.25)
    assert set(more) == {"no fleet", "no typical user"}


def test_limits_of_the_cache_stand_beside_those_of_the_views(tmp_path: Path) -> None:
    columns = {"arrival_us": [0, 1], "block_ids": [[1], [1]], "input_tokens": [16, 16]}
    found = ss.report(build(columns, block_tokens=16), out=tmp_path / "report", figures=False)
    views = [row["view"] for row in found.tables["limits"].rows()]
    assert "caching" in views and len(set(views)) > 1
