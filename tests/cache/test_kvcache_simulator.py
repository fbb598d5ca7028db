"""FIFO, LRU and belady_bypass against kvcache-simulator (KVCache.AI, Apache-2.0), an independent judge.

It counts hits over the last half of the requests, weighs blocks by their tokens, turns GiB into blocks with
its own catalogue, and leaves out budgets that were not full by then. Its `optimal` is our `belady_bypass`.
One rule differs: in its LRU a prompt longer than the cache evicts the last block that it brought in itself
and then gives up, so C - 1 of its blocks stay, not C. `lru:drop_own=1` does the same and has its hits at
every capacity; plain `lru` has them wherever the longest prompt fits.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import servescope as ss
from servescope.cache.blocks import BlockWorkload, block_workload
from servescope.cache.capacity import Size, parse_capacity, resolve
from servescope.cache.choice import Choice
from servescope.kv.catalogue import capacity_rate, model_named
from tests.cache.prompts import BLOCK_TOKENS
from tests.shared import DATA, needs_data
from tests.traces import build

if TYPE_CHECKING:
    from collections.abc import Sequence

simulator = pytest.importorskip("kvcache_sim.simulator")
plans = pytest.importorskip("kvcache_sim.plan")
traces = pytest.importorskip("kvcache_sim.trace")
policies = pytest.importorskip("kvcache_sim.policies")

OURS = {
    "fifo": Choice("fifo", "fifo"),
    "lru": Choice("lru:drop_own=1", "lru", (("drop_own", 1),)),
    "optimal": Choice("belady_bypass", "belady_bypass"),
}
PLAIN_LRU = Choice("lru", "lru")
HIT_TOKENS = 1  # of `BlockWorkload.measures`
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="its core is compiled on the spot")


def longest(made: BlockWorkload) -> int:
    """Blocks of the longest prompt."""
    return int(np.diff(made.prompts.offsets).max())


def ours(made: BlockWorkload, choice: Choice, blocks: int) -> int:
    """Tokens found in the last half."""
    size = Size(blocks * made.prompts.block_tokens, blocks, None, ())
    counted = made.replay(choice, size, seed=0, tell=lambda requests: None)
    assert made.measures[HIT_TOKENS] == "hit_tokens"
    return int(counted.totals[HIT_TOKENS].sum())


@cache
def mooncake(name: str) -> tuple[BlockWorkload, Any]:
    """The same file, read by either side."""
    path = DATA / f"mooncake_{name}.jsonl"
    return block_workload(ss.read(path), warmup=0.5)[0], traces.parse_trace_file(path, block_size=512)


def check_file(name: str, model: str, backend: str, budgets: Sequence[int] | None = None) -> list[int]:
    """Compare every budget that the command prints: these, in GiB."""
    made, theirs = mooncake(name)
    found = simulator.run_sweep(theirs, model_id=model, backend=backend, budgets_gib=budgets)
    rate = capacity_rate(model_named(model))[0]
    assert rate * 512 == found["metadata"]["bytesPerBlock"]
    assert made.prompts.known == found["metadata"]["uniqueBlocks"]
    assert int(made.bases["input_tokens"].sum()) == found["metadata"]["totalMeasuredTokens"]
    for point in found["points"]:
        size = parse_capacity(f"{point['gib']:g}GiB")
        (blocks,), _ = resolve([size], unit="block", whole=1, block_tokens=512, bytes_per_token=rate)
        assert blocks.blocks == point["cacheBlocks"]
        for policy, choice in OURS.items():
            check(made, choice, point["cacheBlocks"], point["results"][policy]["hitTokens"])
    return [point["gib"] for point in found["points"]]


def check(made: BlockWorkload, choice: Choice, blocks: int, hit_tokens: int) -> None:
    assert ours(made, choice, blocks) == hit_tokens
    if choice.name == "lru" and blocks >= longest(made):
        assert ours(made, PLAIN_LRU, blocks) == hit_tokens


@needs_data
def test_the_hits_of_a_trace_at_two_budgets() -> None:
    assert check_file("synthetic", "minimax-m2.5", "python", [64, 1024]) == [64, 1024]


@needs_data
@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("model", ["minimax-m2.5", "deepseek-v3"])
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_the_hits_of_every_budget_against_its_compiled_core(name: str, model: str) -> None:
    assert len(check_file(name, model, "cpp")) > 10


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_the_hits_of_every_budget_against_its_plain_core(name: str) -> None:
    assert len(check_file(name, "minimax-m2.5", "python")) > 10


def random_rows(seed: int) -> tuple[list[list[int]], list[int]]:
    """Block ids and input tokens of prompts that share beginnings, repeat ids and end in partial blocks."""
    random = np.random.default_rng(seed)
    prompts: list[list[int]] = []
    for _ in range(int(random.integers(20, 120))):
        kept: list[int] = []
        if prompts and random.random() < 0.7:
            whole = prompts[int(random.integers(len(prompts)))]
            kept = whole[: int(random.integers(len(whole) + 1))]
        prompts.append([*kept, *random.integers(0, 6, int(random.integers(1, 8))).tolist()])
    inputs = [BLOCK_TOKENS * len(prompt) - int(random.integers(BLOCK_TOKENS)) for prompt in prompts]
    return prompts, inputs


def both_sides(seed: int) -> tuple[BlockWorkload, Any]:
    prompts, inputs = random_rows(seed)
    columns = {"arrival_us": list(range(len(prompts))), "block_ids": prompts, "input_tokens": inputs}
    made = block_workload(build(columns, block_tokens=BLOCK_TOKENS), warmup=0.5)[0]
    rows = zip(prompts, inputs, strict=True)
    lines = [json.dumps({"hash_ids": ids, "input_length": tokens}) for ids, tokens in rows]
    return made, traces.parse_trace_lines(lines, block_size=BLOCK_TOKENS)


@pytest.mark.parametrize("seed", range(20))
def test_the_hits_of_a_random_trace_at_every_capacity(seed: int) -> None:
    made, theirs = both_sides(seed)
    plan = plans.build_execution_plan(theirs)
    assert made.prompts.known == plan.unique_blocks
    judged = 0
    for blocks in range(1, made.prompts.known + 1):
        for policy, choice in OURS.items():
            found = policies.simulate_policy(plan, policy, blocks)
            if found.measurementMode == "fixed_window":
                check(made, choice, blocks, found.hitTokens)
                judged += 1
    assert judged > 30


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_hits_of_a_random_trace_against_its_compiled_core(seed: int) -> None:
    core = pytest.importorskip("kvcache_sim.cpp_backend")
    made, theirs = both_sides(seed)
    found = core.run_cpp_sweep(
        theirs,
        capacities=list(range(1, made.prompts.known + 1)),
        policies=list(OURS),
        warmup_requests=made.first,
    )
    judged = [
        (key, result) for key, result in found.results.items() if result.measurementMode == "fixed_window"
    ]
    assert len(judged) > 30
    for (policy, blocks), result in judged:
        check(made, OURS[policy], blocks, result.hitTokens)
