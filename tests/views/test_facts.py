"""`facts`, `user_share` and `limits` against plain Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from servescope.trace import Origin
from servescope.views import run_views
from tests.traces import build, rows_of, traces

if TYPE_CHECKING:
    from servescope.trace import Trace


def made(trace: Trace, name: str) -> list[dict[str, Any]]:
    (table,), _, _ = run_views(trace, [name], threads=1)
    return table.rows()


def distinct(rows: list[dict[str, Any]], trace: Trace, column: str) -> int | None:
    return len({row[column] for row in rows} - {None}) if trace.has(column) else None


@given(traces())
def test_facts(trace: Trace) -> None:
    rows = rows_of(trace)
    blocks = [block for row in rows for block in row["block_ids"] or []]
    tokens = {}
    for name in ("input_tokens", "output_tokens", "cached_tokens"):
        known = [row[name] for row in rows if row[name] is not None]
        tokens[name] = sum(known) if known else None
    (found,) = made(trace, "facts")
    assert found == {
        "requests": len(rows),
        "span_s": rows[-1]["arrival_us"] / 1e6,
        "models": distinct(rows, trace, "model"),
        "users": distinct(rows, trace, "user"),
        "instances": distinct(rows, trace, "instance"),
        "sessions": distinct(rows, trace, "session_id"),
        **tokens,
        "block_tokens": 16,
        "block_references": len(blocks) if trace.has("block_ids") else None,
        "distinct_blocks": len(set(blocks)) if trace.has("block_ids") else None,
    }


@given(traces(need=("user", "input_tokens")))
def test_user_share(trace: Trace) -> None:
    rows = rows_of(trace)
    requests = Counter(row["user"] or "(no user)" for row in rows)
    tokens = Counter[str]()
    for row in rows:
        tokens[row["user"] or "(no user)"] += row["input_tokens"] or 0
    found = made(trace, "user_share")
    assert found[-1]["user"] == "(all)" and found[-1]["requests"] == len(rows)
    assert {row["user"]: row["requests"] for row in found[:-1]} == dict(requests)
    assert {row["user"]: row["input_tokens"] for row in found[:-1]} == {u: tokens[u] for u in requests}
    named = [row for row in found if row["rank"] is not None]
    assert [row["rank"] for row in named] == list(range(1, len(named) + 1))
    assert [row["requests"] for row in named] == sorted((r["requests"] for r in named), reverse=True)
    assert sum(row["request_share"] for row in found[:-1]) == pytest.approx(1)
    whole = sum(tokens.values())
    for row in found:
        assert row["input_share"] == (pytest.approx(row["input_tokens"] / whole) if whole else None)


def test_users_beyond_the_twentieth_are_summed() -> None:
    users = [f"u{i:02}" for i in range(25) for _ in range(30 - i)]
    found = made(build({"arrival_us": list(range(len(users))), "user": users}), "user_share")
    assert [row["user"] for row in found[:20]] == [f"u{i:02}" for i in range(20)]
    assert [(row["user"], row["requests"]) for row in found[20:]] == [
        ("(other users)", sum(range(6, 11))),
        ("(all)", len(users)),
    ]
    assert found[0]["input_tokens"] is None


def limits(columns: dict[str, Any], **meta: Any) -> dict[str, str]:
    return {row["limit"]: row["because"] for row in made(build(columns, **meta), "limits")}


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (1, {"no hourly trend", "no daily rhythm", "no weekly rhythm", "no drift from month to month"}),
        (24, {"no daily rhythm", "no weekly rhythm", "no drift from month to month"}),
        (24 * 8, {"no weekly rhythm", "no drift from month to month"}),
        (24 * 30, {"no drift from month to month"}),
        (24 * 400, set()),
    ],
)
def test_a_span_limits_rhythms(hours: int, expected: set[str]) -> None:
    found = limits({"arrival_us": [0, hours * HOUR]}, origin=Origin("calendar", 0))
    every = {"no hourly trend", "no daily rhythm", "no weekly rhythm", "no drift from month to month"}
    assert set(found) & every == expected


@pytest.mark.parametrize(
    ("column", "limit"),
    [
        ("ttft_s", "no time to first token, no queueing or prefill time"),
        ("status", "no failures or retries"),
        ("block_ids", "no reuse of prefixes across requests"),
        ("session_id", "no stated sessions: turns and same-session reuse are unknown"),
        ("user", "no users: no shares, returns or fairness"),
    ],
)
def test_a_missing_column_is_a_limit(column: str, limit: str) -> None:
    values = {"ttft_s": 0.5, "status": "ok", "block_ids": [1], "session_id": 3, "user": "a"}
    assert limit in limits({"arrival_us": [0, 1]})
    assert limit not in limits({"arrival_us": [0, 1], column: [values[column]] * 2})


def test_clocks() -> None:
    assert "hours and days are elapsed, not hours of a calendar day" in limits({"arrival_us": [0]})
    nominal = limits({"arrival_us": [0]}, origin=Origin("nominal", 0))
    assert "hours and weekdays are nominal, shifted by an unknown amount" in nominal
    none = limits({"arrival_us": [0]}, origin=Origin("none"))
    assert "nothing on rates, gaps, bursts or order" in none and "no daily rhythm" not in none


def test_batched_arrivals_are_said() -> None:
    limit = "gaps and bursts below the source's tick are unknown"
    batched = limits({"arrival_us": [0] * 5 + [3_000_000] * 5 + [6_000_000] * 5}, cuts=(2, 7))
    because = "15 requests share 3 distinct arrival times, 3 s apart on average: arrivals are batched"
    assert batched[limit] == because
    assert limit not in limits({"arrival_us": [0, 0, 1, 1]})


def test_a_dominant_user_and_partly_known_columns_are_said() -> None:
    found = limits({"arrival_us": [0, 1, 2], "user": ["a", "a", None], "cached_tokens": [4, None, None]})
    because = found["averages over requests describe one user, not the population"]
    assert because == "one user sent 66.7% of the requests"
    assert "cached_tokens statistics describe 1 of 3 requests" in found


def test_an_unknown_chain_is_a_limit() -> None:
    columns = {"arrival_us": [0], "block_ids": [[1]]}
    limit = "prefixes are matched by ids in order, and may be over- or undercounted"
    assert limit in limits(columns, chained=None)
    assert limit not in limits(columns, chained=True)
