"""What a sweep of whole sessions cannot tell, from what was replayed."""

from __future__ import annotations

from typing import Any

from servescope.cache.options import CacheOptions
from servescope.cache.result import result_tables
from tests.cache.sessions import growing_trace
from tests.traces import build


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
