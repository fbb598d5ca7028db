"""Two tiers of memory against two lists in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.capacity import Size
from servescope.cache.policies import block_lru
from servescope.cache.policies.counts import EVICTIONS
from servescope.cache.tiers import BACK, DEVICE, DROPPED, HOST, Tiers, count_tiers, tiers_table
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS, hits_of, lay
from tests.reference.block_policies import path

if TYPE_CHECKING:
    from tests.reference.block_policies import Node


def plain(prompts: list[tuple[int, ...]], device: int, host: int, first: int) -> list[int]:
    """Device hits, host hits, blocks written back, blocks dropped; young blocks stand first."""
    upper: list[Node] = []
    lower: list[Node] = []
    counts = [0, 0, 0, 0]
    for number, prompt in enumerate(prompts):
        nodes = path(prompt)
        found = []
        for node in nodes:
            if node not in upper and node not in lower:
                break
            found.append(node)
        whole = nodes + [node for node in upper + lower if node not in nodes]
        now_upper, now_lower = whole[:device], whole[device : device + host]
        if number >= first:
            counts[0] += sum(node in upper for node in found)
            counts[1] += sum(node in lower for node in found)
            counts[2] += sum(node not in now_upper for node in upper)
            counts[3] += sum(node not in now_upper + now_lower for node in upper + lower)
        upper, lower = now_upper, now_lower
    return counts


@given(PROMPTS, st.integers(0, 6), st.integers(0, 6), st.integers(0, 13))
def test_tiers_are_two_lists(prompts: list[tuple[int, ...]], device: int, host: int, first: int) -> None:
    first = min(first, len(prompts))
    found = count_tiers(lay(prompts), [Tiers(device, host)], first=first)[0]
    assert found[[DEVICE, HOST, BACK, DROPPED]].tolist() == plain(prompts, device, host, first)


@given(PROMPTS, st.integers(0, 6), st.integers(0, 6))
def test_both_tiers_together_are_one_lru(prompts: list[tuple[int, ...]], device: int, host: int) -> None:
    laid = lay(prompts)
    found = count_tiers(laid, [Tiers(device, host)])[0]
    hits, state = hits_of(block_lru, laid, device + host)
    assert found[DEVICE] + found[HOST] == sum(hits)
    assert found[DROPPED] == state.counts[EVICTIONS]
    assert found[DEVICE] == sum(hits_of(block_lru, laid, device)[0])


def test_the_table_has_a_row_for_every_pair() -> None:
    laid = lay([(1, 2), (3,), (1, 2)], inputs=[32, 16, 30])
    sizes = [Size(16 * blocks, blocks, None, ()) for blocks in (1, 2)]
    rows = tiers_table(laid, sizes, sizes[1:]).rows()
    assert [(row["device_blocks"], row["host_blocks"]) for row in rows] == [(1, 2), (2, 2)]
    last = rows[1]
    assert (last["device_block_hits"], last["host_block_hits"], last["block_references"]) == (1, 1, 5)
    assert (last["device_hit_tokens"], last["host_hit_tokens"]) == (BLOCK_TOKENS, 14)
    assert last["block_hit_ratio"] == 2 / 5 and last["promoted_blocks"] == 1
