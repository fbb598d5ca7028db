"""T-LRU, TTL, SIEVE, S3-FIFO and LMCache's policy over prefix blocks against plain twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.policies import (
    block_lru,
    block_s3fifo,
    block_sieve,
    block_ttl,
    lmcache,
    tail_lru,
)
from servescope.cache.policies.counts import PEAK, USED
from servescope.cache.prompts import prompts_of
from servescope.errors import UsageError
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS, hits_of, lay
from tests.reference import block_queues
from tests.shared import DATA, needs_data

MISSING = st.lists(st.integers(0, 15), min_size=14, max_size=14)
OUTPUTS = st.lists(st.integers(0, 40), min_size=14, max_size=14)


def inputs_of(prompts: list[tuple[int, ...]], missing: list[int]) -> list[int]:
    return [
        16 * len(prompt) - lacks if prompt else 0 for prompt, lacks in zip(prompts, missing, strict=False)
    ]


@given(PROMPTS, st.integers(0, 8), MISSING, OUTPUTS, st.integers(-20, 60))
def test_tail_lru(
    prompts: list[tuple[int, ...]], capacity: int, missing: list[int], outputs: list[int], spare: int
) -> None:
    inputs, outputs = inputs_of(prompts, missing), outputs[: len(prompts)]
    laid = lay(prompts, inputs)._replace(outputs=np.array(outputs, np.int32))
    found, state = hits_of(tail_lru, laid, capacity, tolerated_tokens=spare, next_tokens=0)
    assert found == block_queues.tail_lru(prompts, inputs, outputs, BLOCK_TOKENS, capacity, spare)
    assert state.counts[USED] <= state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(0, 8), st.integers(0, 15))
def test_ttl(prompts: list[tuple[int, ...]], capacity: int, ttl_s: int) -> None:
    laid = lay(prompts)
    found, state = hits_of(block_ttl, laid, capacity, ttl_s=ttl_s)
    assert found == block_queues.ttl(prompts, range(len(prompts)), capacity, ttl_s)
    assert state.counts[PEAK] <= capacity
    if ttl_s >= len(prompts):
        assert found == hits_of(block_lru, laid, capacity)[0]


@given(PROMPTS, st.integers(0, 8))
def test_sieve(prompts: list[tuple[int, ...]], capacity: int) -> None:
    found, state = hits_of(block_sieve, lay(prompts), capacity)
    assert found == block_queues.sieve(prompts, capacity)
    assert state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(0, 12), st.integers(1, 2))
def test_s3fifo(prompts: list[tuple[int, ...]], capacity: int, threshold: int) -> None:
    found, state = hits_of(block_s3fifo, lay(prompts), capacity, threshold=threshold)
    assert found == block_queues.s3fifo(prompts, capacity, threshold)
    assert state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(0, 8), MISSING)
def test_lmcache(prompts: list[tuple[int, ...]], capacity: int, missing: list[int]) -> None:
    inputs = inputs_of(prompts, missing)
    found, state = hits_of(lmcache, lay(prompts, inputs), capacity)
    assert found == block_queues.lmcache(prompts, inputs, range(len(prompts)), BLOCK_TOKENS, capacity)
    assert state.counts[PEAK] <= capacity


@pytest.mark.parametrize("module", [tail_lru, block_ttl, block_sieve, block_s3fifo, lmcache])
@given(PROMPTS, st.integers(1, 8), st.lists(st.integers(0, 6), min_size=14, max_size=14))
def test_held_blocks_stay(
    module: object, prompts: list[tuple[int, ...]], capacity: int, seconds: list[int]
) -> None:
    laid = lay(prompts)
    ends = laid.arrival_us + np.array(seconds[: len(prompts)]) * 1_000_000
    laid = laid._replace(ends_us=ends, ending=np.argsort(ends, kind="stable").astype(np.int32))
    _, state = hits_of(module, laid, capacity)
    inner = next((getattr(state, name) for name in ("ring", "lru", "leaves") if hasattr(state, name)), state)
    users = np.zeros(laid.known, int)
    for request, end in enumerate(ends):
        if end > laid.arrival_us[-1] or request == len(ends) - 1:
            low = laid.offsets[request]
            users[laid.nodes[low : low + inner.held[request]]] += 1
    cached = inner.users >= 0
    assert inner.users[cached].tolist() == users[cached].tolist()
    assert not users[~cached].any()
    assert state.counts[USED] == cached.sum() <= capacity


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(UsageError, match="must be 0 to"):
        block_ttl.new(lay([(1,)]), 1, 0, ttl_s=-1)


@needs_data
@pytest.mark.parametrize("module", [tail_lru, block_ttl, block_sieve, block_s3fifo, lmcache])
def test_at_full_size_every_policy_has_all_hits(module: object) -> None:
    laid = prompts_of(ss.read(DATA / "mooncake_synthetic.jsonl")).prompts
    given_ttl = {"ttl_s": 1e6} if module is block_ttl else {}
    found, _ = hits_of(module, laid, laid.known, **given_ttl)
    assert sum(found) == int(laid.offsets[-1]) - laid.known
