"""Policies that evict the free leaf with the smallest key, against plain Python and with held blocks."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.policies import BLOCK_POLICIES, FIXED, block_lru, sglang
from servescope.cache.policies.counts import PEAK, USED
from servescope.errors import UsageError
from tests.cache.prompts import PROMPTS, hits_of, lay
from tests.reference import block_policies

KEYED = ["lfu", "gdsf", *(name for name in BLOCK_POLICIES if name.startswith("sglang"))]


@pytest.mark.parametrize("name", KEYED)
@given(PROMPTS, st.integers(0, 8))
def test_hits_are_those_of_plain_python(name: str, prompts: list[tuple[int, ...]], capacity: int) -> None:
    module = import_module(BLOCK_POLICIES[name])
    found, state = hits_of(module, lay(prompts), capacity, **FIXED.get(name, {}))
    assert found == block_policies.leaf_keyed(prompts, capacity, name)
    assert state.counts[USED] <= state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(1, 8), st.lists(st.integers(0, 6), min_size=14, max_size=14))
def test_held_blocks_stay_and_the_heap_holds_the_free_leaves(
    prompts: list[tuple[int, ...]], capacity: int, seconds: list[int]
) -> None:
    laid = lay(prompts)
    ends = laid.arrival_us + np.array(seconds[: len(prompts)]) * 1_000_000
    laid = laid._replace(ends_us=ends, ending=np.argsort(ends, kind="stable").astype(np.int32))
    state = hits_of(sglang, laid, capacity)[1].leaves
    now = laid.arrival_us[-1]
    users = np.zeros(laid.known, int)
    for request, end in enumerate(ends):
        if end > now or request == len(ends) - 1:
            low = laid.offsets[request]
            users[laid.nodes[low : low + state.held[request]]] += 1
    cached = np.flatnonzero(state.users >= 0)
    # those that ended exactly with the last arrival let go before it; the last one itself still holds
    assert state.users[cached].tolist() == users[cached].tolist()
    assert (users[state.users < 0] == 0).all()
    parents = {int(laid.parents[node]) for node in cached}
    assert parents - {-1} <= set(cached.tolist())
    free = {node for node in cached.tolist() if users[node] == 0 and node not in parents}
    assert set(state.heap[: state.size[0]].tolist()) == free


@given(PROMPTS, st.integers(0, 8))
def test_sglang_lru_is_leaf_lru(prompts: list[tuple[int, ...]], capacity: int) -> None:
    laid = lay(prompts)
    assert hits_of(sglang, laid, capacity)[0] == hits_of(block_lru, laid, capacity)[0]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="slru"):
        sglang.new(lay([(1,)]), 1, 0, key="sltu")
