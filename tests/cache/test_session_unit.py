"""The unit of whole sessions: the curve beside replays, facts of the workload, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servescope.cache.options import CacheOptions
from servescope.cache.result import result_tables
from tests.cache.sessions import growing_trace
from tests.traces import build

if TYPE_CHECKING:
    from servescope.trace import Trace


def swept(trace: Trace, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    given = {"policies": ("lru",), "capacities": ("1%,20%,50%,200%",), "curve": True, **options}
    tables, notes, _ = result_tables(trace, CacheOptions(**given))
    return {table.name: table.rows() for table in tables}, notes


def test_the_curve_gives_every_replay_of_lru() -> None:
    found, _ = swept(growing_trace(), warmup=0.3)
    exact = [row for row in found["curve"] if row["method"] == "reuse_distance"]
    single = {row["capacity_tokens"]: row for row in found["curve"] if row["method"] == "replay"}
    largest = found["workload"][0]["largest_tokens"]
    assert exact[0]["capacity_tokens"] == largest and max(single) < largest
    for row in found["cache"]:
        here = single.get(row["capacity_tokens"])
        if here is None:
            here = [one for one in exact if one["capacity_tokens"] <= row["capacity_tokens"]][-1]
        assert (here["request_hits"], here["hit_tokens"]) == (row["request_hits"], row["hit_tokens"])


def test_sessions_that_shrink_are_on_the_curve_too() -> None:
    columns = {"arrival_us": [0, 1, 2, 3], "session_id": [0, 1, 1, 0], "input_tokens": [3, 8, 4, 3]}
    found, notes = swept(build(columns), capacities=("7tokens", "10tokens", "11tokens"))
    assert found["workload"][0]["shrinking_requests"] == 1
    hits = {row["capacity_tokens"]: (row["request_hits"], row["method"]) for row in found["curve"]}
    assert hits == {7: (1, "replay"), 8: (1, "reuse_distance"), 11: (2, "reuse_distance")}
    assert [row["request_hits"] for row in found["cache"]] == [1, 1, 2]
    assert any("exact from the largest request on, 8 tokens" in note for note in notes)


def test_facts_of_the_workload() -> None:
    columns = {
        "arrival_us": [0, 1, 2, 3, 4],
        "user": ["a", "b", "a", "a", "b"],
        "session_id": [3, 1, 3, 3, 0],
        "input_tokens": [10, 7, 20, 30, 5],
        "output_tokens": [1, 1, 1, 1, 1],
    }
    found, notes = swept(build(columns), warmup=0.4)
    assert found["workload"] == [
        {
            "model": "*",
            "rule": "stated",
            "requests": 5,
            "warmup_requests": 2,
            "sessions": 3,
            "users": 2,
            "input_tokens": 72,
            "prefix_tokens": 11 + 21,
            "working_set_tokens": 22,
            "largest_tokens": 30,
            "shrinking_requests": 0,
            "request_hit_ceiling": 2 / 3,
            "token_hit_ceiling": 32 / 55,
            "heaviest_share": 2 / 3,
        }
    ]
    assert "sessions are those that the trace states" in notes


def test_several_models_in_one_cache_are_said() -> None:
    _, notes = swept(growing_trace(80))
    assert "sessions are rebuilt by the rule paper (look-back 10)" in notes
    assert any(note.startswith("sessions of 2 models share the cache") for note in notes)
    _, notes = swept(growing_trace(80), models=("m0",))
    assert not any("share the cache" in note for note in notes)
    assert any("left out" in note and "of other models (other_model)" in note for note in notes)


def test_logged_hits_stand_beside_the_prefixes_of_sessions() -> None:
    columns = {
        "arrival_us": [0, 1, 2],
        "session_id": [0, 0, 1],
        "parent_id": [None, 0, None],
        "input_tokens": [10, 20, 30],
        "output_tokens": [2, 1, 1],
        "cached_tokens": [0, 12, 0],
        "model": ["m", "m", "n"],
    }
    found, notes = swept(build(columns))
    whole = next(row for row in found["trust"] if row["dimension"] == "all")
    assert (whole["logged_tokens"], whole["predicted_tokens"], whole["model"]) == (12, 12, "*")
    assert not any("withheld" in note for note in notes)
    columns["cached_tokens"] = [0, 0, 30]
    _, notes = swept(build(columns))
    assert any("advice is withheld" in note for note in notes)
    by_model, _ = swept(build(columns), models=("m", "n"))
    assert {row["model"] for row in by_model["trust"]} == {"m", "n"}
    assert (
        "trust" not in swept(build({name: columns[name] for name in columns if name != "cached_tokens"}))[0]
    )
