"""The unit `block`: what a sweep counts, by its names, by kind of request, by position; and its command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.blocks import block_workload
from servescope.cache.capacity import Size
from servescope.cache.choice import parse_choice
from servescope.cache.policies import BLOCK_POLICIES
from servescope.errors import DataError, UsageError
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS
from tests.reference import block_policies
from tests.shared import CASES, needs_cases
from tests.traces import build


def quiet(_requests: int) -> None:
    """Progress that nobody looks at."""


def cells(**columns: list[Any]) -> dict[str, list[dict[str, Any]]]:
    number = len(columns["block_ids"])
    trace = build({"arrival_us": list(range(number)), **columns}, block_tokens=BLOCK_TOKENS)
    result = ss.simulate_cache(trace, policy="lru,belady_bypass", capacity="2blocks,100blocks")
    return {name: table.rows() for name, table in result.tables.items()}


@needs_cases
def test_case_33_six_hit_rates_under_six_names() -> None:
    result = ss.simulate_cache(
        ss.read(Path(CASES) / "33-hit-rate-names.jsonl"), policy="lru", capacity="100blocks"
    )
    found = {row["name"]: (row["numerator"], row["denominator"]) for row in result["block_hit_rates"].rows()}
    assert found["block_hit_rate_partial_tails_count"] == (6, 11)
    assert found["block_hit_rate_full_blocks_only"] == (5, 8)
    assert found["token_hit_rate_partial_tails_count"] == (3036, 5136)
    assert found["token_hit_rate_full_blocks_only"] == (2560, 5136)
    assert found["requests_with_any_hit"] == (3, 5)
    part, whole = found["mean_of_request_block_ratios"]
    assert (round(100 * part / whole, 1), whole) == (43.3, 5)
    # vLLM never counts the last token: the prompt of 512 tokens would lose its only block
    assert found["token_hit_rate_engine"] == (2560, 5136)
    row = result["cache"].rows()[0]
    assert (row["block_hits"], row["block_references"], row["block_hit_ratio"]) == (6, 11, 6 / 11)
    assert (row["full_block_hits"], row["full_block_references"]) == (5, 8)
    assert row["capacity_tokens"] == 100 * 512 and row["filled"] is False


def test_rows_of_a_sweep_repeat_the_size_and_carry_the_distance() -> None:
    found = cells(block_ids=[[1, 2], [3], [1, 2], [3, 4]])
    by_cell = {(row["policy"], row["capacity_blocks"]): row for row in found["cache"]}
    lru, best = by_cell["lru", 2], by_cell["belady_bypass", 2]
    assert (lru["capacity_tokens"], lru["capacity_bytes"], lru["credit"]) == (32, None, None)
    assert lru["block_hits"] == 1 < best["block_hits"] == 2
    assert (lru["distance_to_bound"], best["distance_to_bound"]) == (0, 1)
    assert by_cell["lru", 100]["distance_to_bound"] is None  # where both have every hit


@given(PROMPTS, st.integers(0, 8), st.integers(0, 13))
def test_counts_by_kind_and_position_add_up(prompts: list[tuple[int, ...]], capacity: int, warm: int) -> None:
    number = len(prompts)
    trace = build(
        {
            "arrival_us": list(range(number)),
            "block_ids": [list(prompt) for prompt in prompts],
            "request_type": [("text", "file", None)[i % 3] for i in range(number)],
            "turn": [i % 6 + 1 for i in range(number)],
        },
        block_tokens=BLOCK_TOKENS,
    )
    warmup = min(warm, number - 1) / number
    made, _ = block_workload(trace, warmup=warmup)
    first = made.first
    counted = made.replay(
        parse_choice("lru", BLOCK_POLICIES), Size(0, capacity, None, ()), seed=0, tell=quiet
    )
    hits, evictions = block_policies.leaf_lru(prompts, capacity)
    assert counted.totals[2].sum() == sum(hits[first:])
    assert counted.evictions == evictions - block_policies.leaf_lru(prompts[:first], capacity)[1]
    wanted: Counter[str] = Counter()
    for i in range(first, number):
        turn = i % 6 + 1
        wanted[f"{('text', 'file', 'untyped')[i % 3]}_{turn if turn < 4 else '4+'}"] += hits[i]
    names = dict(zip(made.categories.names, counted.kinds[:, 2].tolist(), strict=True))
    assert {name: found for name, found in names.items() if found} == {
        name: found for name, found in wanted.items() if found
    }
    for place in range(5):
        low, high = (0, 1) if place == 0 else (1 << (place - 1), 1 << place)
        lengths = [len(prompt) for prompt in prompts[first:]]
        assert counted.positions[place].tolist() == [
            sum(max(0, min(length, high) - low) for length in lengths),
            sum(max(0, min(found, high) - low) for found in hits[first:]),
        ]


def test_recomputed_tokens_are_what_an_unlimited_cache_would_have_found() -> None:
    found = cells(block_ids=[[1, 2], [3, 4], [1, 2]], input_tokens=[32, 30, 32])
    rows = [row for row in found["cache_by_category"] if row["policy"] == "lru"]
    by_size = Counter()
    for row in rows:
        by_size[row["capacity_blocks"]] += row["recomputed_tokens"]
    assert by_size == {2: 32, 100: 0}


def test_reuse_lost_to_scopes_is_told() -> None:
    found = cells(block_ids=[[1, 2], [1, 2], [1, 2]], cache_scope=["a", "b", "a"])
    row = found["block_workload"][0]
    assert row["scope_lost_blocks"] == 2  # the second prompt would find both blocks
    assert (
        cells(block_ids=[[1], [1], [1]], cache_scope=["a"] * 3)["block_workload"][0]["scope_lost_blocks"]
        is None
    )


def test_one_model_and_window_are_replayed_alone() -> None:
    trace = build(
        {"arrival_us": [0, 1, 2, 3], "block_ids": [[1], [1], [1], None], "model": ["m", "n", "m", "m"]},
        block_tokens=BLOCK_TOKENS,
    )
    made, notes = block_workload(trace, model="m")
    assert (made.name, made.rows, made.whole) == ("m", 2, 1)
    assert any("1 requests state no blocks" in note for note in notes)
    assert any("1 requests of other models" in note for note in notes)
    assert block_workload(trace, window_us=(1, 3))[0].rows == 2
    with pytest.raises(UsageError, match="model"):
        block_workload(trace, model="x")
    with pytest.raises(DataError, match="none of those chosen"):
        block_workload(trace, window_us=(3, 9))


def test_an_empty_list_is_a_prompt_without_hits() -> None:
    row = cells(block_ids=[[], [1], [], [1]])["cache"][0]
    assert (row["requests"], row["request_hits"], row["block_references"]) == (4, 1, 2)


@pytest.mark.parametrize(
    ("capacity", "says"),
    [("100", "say %, tokens, blocks or bytes"), ("2GiB", "--kv-model"), ("-1blocks", "-1blocks")],
)
def test_sizes_that_say_too_little_are_refused(capacity: str, says: str) -> None:
    trace = build({"arrival_us": [0], "block_ids": [[1]]}, block_tokens=BLOCK_TOKENS)
    with pytest.raises(UsageError, match=says):
        ss.simulate_cache(trace, policy="lru", capacity=capacity)


def test_a_model_of_the_catalogue_gives_bytes() -> None:
    trace = build({"arrival_us": [0], "block_ids": [[1]]}, block_tokens=BLOCK_TOKENS)
    result = ss.simulate_cache(trace, policy="lru", capacity="64GiB", kv_model="minimax-m2.5")
    row = result["cache"].rows()[0]
    per_token = 25_395_200_000 // 100_000
    assert row["capacity_blocks"] == 64 * 2**30 // (per_token * BLOCK_TOKENS)
    assert row["capacity_bytes"] == row["capacity_tokens"] * per_token


def test_a_host_tier_stands_behind_each_size() -> None:
    trace = build({"arrival_us": [0, 1, 2], "block_ids": [[1, 2], [3], [1, 2]]}, block_tokens=BLOCK_TOKENS)
    result = ss.simulate_cache(trace, policy="lru", capacity="1blocks", host_capacity="2blocks,100%")
    rows = [
        (row["host_blocks"], row["device_block_hits"], row["host_block_hits"])
        for row in result["tiers"].rows()
    ]
    assert rows == [(2, 0, 2), (3, 0, 2)]


def test_what_running_requests_leave_of_the_largest_size() -> None:
    held = {"arrival_us": [0, 1_000_000], "completed_us": [4_000_000, 3_000_000], "block_ids": [[1, 2], [3]]}
    trace = build({**held, "input_tokens": [32, 16]}, block_tokens=BLOCK_TOKENS)
    result = ss.simulate_cache(trace, policy="lru", capacity="2blocks,5blocks")
    assert [row["active_tokens_max"] for row in result["active_kv"].rows()] == [32, 48, 48, 32]
    assert [row["left_tokens_min"] for row in result["active_kv"].rows()] == [48, 32, 32, 48]


def test_a_sample_gives_the_curve_alone() -> None:
    trace = build({"arrival_us": [0, 1], "block_ids": [[1, 2], [1, 2]]}, block_tokens=BLOCK_TOKENS)
    result = ss.simulate_cache(trace, policy="lru", sample=1.0)
    assert set(result.tables) == {"curve_sample", "curve_sample_about"}
    assert result["curve_sample"].rows()[-1]["block_hit_ratio"] == 0.5
    assert any("--policy not used" in note for note in result.notes)
    with pytest.raises(UsageError, match="has none"):
        ss.simulate_cache(
            build({"arrival_us": [0], "session_id": [1], "input_tokens": [5]}), unit="session", sample=0.5
        )
    with pytest.raises(UsageError, match="--credit"):
        ss.simulate_cache(trace, credit="prompt")


def test_names_may_be_written_with_hyphens_and_unknown_ones_are_refused() -> None:
    assert parse_choice("workload-aware:life_s=30", BLOCK_POLICIES).text == "workload_aware:life_s=30.0"
    with pytest.raises(UsageError, match="belady_bypass"):
        parse_choice("belady_bypas", BLOCK_POLICIES)
    with pytest.raises(UsageError, match="bound"):
        parse_choice("bound", BLOCK_POLICIES)


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    generator = np.random.default_rng(3)
    prompts = [generator.integers(0, 4, generator.integers(0, 12)).tolist() for _ in range(300)]
    trace = build({"arrival_us": list(range(300)), "block_ids": prompts}, block_tokens=BLOCK_TOKENS)

    def tables(threads: int) -> bytes:
        result = ss.simulate_cache(trace, capacity="5%,20%", curve=True, threads=threads)
        document = result.document()["tables"]
        for row in document["cache"]:
            row.pop("seconds")
        return json.dumps(document).encode()

    assert tables(1) == tables(3)
