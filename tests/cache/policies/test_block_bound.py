"""No policy over prefix blocks finds more than the clairvoyant one that may leave blocks out."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.cache.policies import BLOCK_POLICIES, FIXED, block_belady
from servescope.cache.policies.counts import PEAK
from tests.cache.prompts import PROMPTS, hits_of, lay


@pytest.mark.parametrize("name", BLOCK_POLICIES)
@settings(max_examples=60)
@given(
    PROMPTS,
    st.integers(1, 8),
    st.lists(st.integers(0, 15), min_size=14, max_size=14),
    st.lists(st.integers(0, 2), min_size=14, max_size=14),
)
def test_no_policy_beats_belady_bypass(
    name: str, prompts: list[tuple[int, ...]], capacity: int, missing: list[int], kinds: list[int]
) -> None:
    inputs = [
        16 * len(prompt) - lacks if prompt else 0 for prompt, lacks in zip(prompts, missing, strict=False)
    ]
    laid = lay(prompts, inputs)._replace(categories=np.array(kinds[: len(prompts)], np.int32))
    best, _ = hits_of(block_belady, laid, capacity, bypass=True)
    found, state = hits_of(import_module(BLOCK_POLICIES[name]), laid, capacity, **FIXED.get(name, {}))
    assert sum(found) <= sum(best)
    assert state.counts[PEAK] <= capacity
