"""LRU of prefix blocks, and its exact curve, against plain Python and with requests that hold blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.block_curve import lru_curve
from servescope.cache.policies import block_lru
from servescope.cache.policies.counts import EVICTIONS, PEAK, USED
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS, hits_of, lay
from tests.reference import block_policies
from tests.shared import CASES, needs_cases


@given(PROMPTS, st.integers(0, 8))
def test_hits_and_evictions_are_those_of_plain_python(prompts: list[tuple[int, ...]], capacity: int) -> None:
    hits, evictions = block_policies.leaf_lru(prompts, capacity)
    found, state = hits_of(block_lru, lay(prompts), capacity)
    assert found == hits
    assert state.counts[EVICTIONS] == evictions
    assert state.counts[USED] <= state.counts[PEAK] <= capacity


@given(PROMPTS, st.data())
def test_the_curve_has_the_hits_of_every_capacity(
    prompts: list[tuple[int, ...]], data: st.DataObject
) -> None:
    inputs = [
        data.draw(st.integers(16 * len(prompt) - 15, 16 * len(prompt))) if prompt else 0 for prompt in prompts
    ]
    first = data.draw(st.integers(0, len(prompts)))
    laid = lay(prompts, inputs)
    curve = lru_curve(laid, first=first).data.to_pylist()
    for capacity in range(laid.known + 2):
        hits, _ = block_policies.leaf_lru(prompts, capacity)
        tokens = [min(found * BLOCK_TOKENS, tokens) for found, tokens in zip(hits, inputs, strict=True)]
        row = [row for row in curve if row["capacity_blocks"] <= capacity][-1]
        assert row["block_hits"] == sum(hits[first:])
        assert row["request_hits"] == sum(found > 0 for found in hits[first:])
        assert row["hit_tokens"] == sum(tokens[first:])


def test_the_curve_is_the_replay_where_its_time_slots_run_out() -> None:
    generator = np.random.default_rng(5)
    prompts = [
        (int(group), *generator.integers(0, 3, generator.integers(0, 200)).tolist())
        for group in generator.zipf(1.3, 800).clip(max=60)
    ]
    laid = lay(prompts)
    assert laid.offsets[-1] > 1 << 15
    curve = lru_curve(laid).data.to_pylist()
    for capacity in (1, 10, 100, 1000, 10_000, laid.known):
        found, _ = hits_of(block_lru, laid, capacity)
        assert [row for row in curve if row["capacity_blocks"] <= capacity][-1]["block_hits"] == sum(found)


def test_a_running_request_holds_its_blocks() -> None:
    laid = lay([(1, 2), (3,), (4,), (1, 2)])
    ends = laid.arrival_us.copy()
    ends[0] = 2_500_000  # until after the third request
    held = laid._replace(ends_us=ends, ending=np.argsort(ends, kind="stable").astype(np.int32))
    assert hits_of(block_lru, laid, 3)[0] == [0, 0, 0, 1]
    assert hits_of(block_lru, held, 3)[0] == [0, 0, 0, 2]


def test_a_prompt_that_finds_all_held_keeps_what_fits() -> None:
    laid = lay([(1, 2), (3, 4), (3, 4)])
    ends = laid.arrival_us.copy()
    ends[0] = 9_000_000
    held = laid._replace(ends_us=ends, ending=np.argsort(ends, kind="stable").astype(np.int32))
    assert hits_of(block_lru, held, 3)[0] == [0, 0, 1]


@needs_cases
def test_case_32_the_deeper_block_goes_first() -> None:
    from servescope.cache.prompts import prompts_of

    laid = prompts_of(ss.read(Path(CASES) / "32-prefix-gap.jsonl")).prompts
    assert hits_of(block_lru, laid, 3)[0] == [0, 0, 2]


@needs_cases
def test_case_15_ids_need_all_64_bits() -> None:
    from servescope.cache.prompts import prompts_of

    laid = prompts_of(ss.read(Path(CASES) / "15-hash64.jsonl")).prompts
    assert hits_of(block_lru, laid, 100)[0] == [0, 0, 1, 0, 2]
