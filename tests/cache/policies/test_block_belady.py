"""FIFO and the clairvoyant caches of prefix blocks against plain Python, each other, and every choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.policies import block_belady, block_fifo, block_lru
from servescope.cache.policies.counts import EVICTIONS, PEAK
from servescope.cache.prompts import prompts_of
from tests.cache.prompts import PROMPTS, hits_of, lay
from tests.reference import block_policies
from tests.shared import DATA, needs_data


@given(PROMPTS, st.integers(0, 8))
def test_fifo_is_that_of_plain_python(prompts: list[tuple[int, ...]], capacity: int) -> None:
    hits, evictions = block_policies.flat_fifo(prompts, capacity)
    found, state = hits_of(block_fifo, lay(prompts), capacity)
    assert found == hits
    assert state.counts[EVICTIONS] == evictions
    assert state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(0, 8), st.booleans())
def test_belady_is_that_of_plain_python(prompts: list[tuple[int, ...]], capacity: int, bypass: bool) -> None:
    found, state = hits_of(block_belady, lay(prompts), capacity, bypass=bypass)
    assert found == block_policies.leaf_belady(prompts, capacity, bypass=bypass)
    assert state.counts[PEAK] <= capacity


SMALL = st.lists(st.lists(st.integers(0, 2), max_size=3).map(tuple), min_size=1, max_size=6)


@given(SMALL, st.integers(0, 3))
def test_belady_bypass_reaches_the_most_hits(prompts: list[tuple[int, ...]], capacity: int) -> None:
    found, _ = hits_of(block_belady, lay(prompts), capacity, bypass=True)
    assert sum(found) == block_policies.most_hits(prompts, capacity)


@settings(max_examples=300)
@given(PROMPTS, st.integers(1, 8))
def test_no_policy_beats_belady_bypass(prompts: list[tuple[int, ...]], capacity: int) -> None:
    laid = lay(prompts)
    best = sum(hits_of(block_belady, laid, capacity, bypass=True)[0])
    assert sum(hits_of(block_lru, laid, capacity)[0]) <= best
    assert sum(hits_of(block_fifo, laid, capacity)[0]) <= best
    assert sum(hits_of(block_belady, laid, capacity)[0]) <= best


GOLDEN = {  # kv-reuse, A.6: LRU, belady, belady with bypass
    "conversation": {
        1_000: (0.0445, 0.1792, 0.1907),
        5_000: (0.1118, 0.3397, 0.3412),
        10_000: (0.2116, 0.3664, 0.3664),
        20_000: (0.2878, 0.3664, 0.3664),
        50_000: (0.3546, 0.3664, 0.3664),
        182_790: (0.3664, 0.3664, 0.3664),
    },
    "synthetic": {
        1_000: (0.0841, 0.2691, 0.2767),
        5_000: (0.2793, 0.5256, 0.5263),
        10_000: (0.4239, 0.6174, 0.6180),
        20_000: (0.5718, 0.6396, 0.6396),
        50_000: (0.6396, 0.6396, 0.6396),
    },
}


@needs_data
@pytest.mark.parametrize("name", GOLDEN)
def test_the_published_hit_ratios_of_mooncake(name: str) -> None:
    laid = prompts_of(ss.read(DATA / f"mooncake_{name}.jsonl")).prompts
    runs = ((block_lru, {}), (block_belady, {"bypass": False}), (block_belady, {"bypass": True}))
    for capacity, published in GOLDEN[name].items():
        found = [np.sum(hits_of(module, laid, capacity, **given)[0]) for module, given in runs]
        assert tuple(round(float(hits) / len(laid.nodes), 4) for hits in found) == published
