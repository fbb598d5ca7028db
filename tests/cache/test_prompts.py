"""Prompts as paths through one prefix tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from servescope.cache.prompts import next_requests, prompts_of
from servescope.errors import UsageError
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS, lay
from tests.traces import build


@given(PROMPTS)
def test_nodes_are_the_distinct_prefixes(prompts: list[tuple[int, ...]]) -> None:
    laid = lay(prompts)
    prefixes: dict[tuple[int, ...], int] = {}
    for prompt in prompts:
        for depth in range(len(prompt)):
            prefixes.setdefault(prompt[: depth + 1], len(prefixes))
    assert laid.known == len(prefixes)
    assert laid.nodes.tolist() == [
        prefixes[prompt[: depth + 1]] for prompt in prompts for depth in range(len(prompt))
    ]
    assert laid.parents.tolist() == [prefixes.get(prefix[:-1], -1) for prefix in prefixes]
    assert laid.depths.tolist() == [len(prefix) for prefix in prefixes]


@given(PROMPTS)
def test_next_requests_are_the_next_prompts_with_the_same_prefix(prompts: list[tuple[int, ...]]) -> None:
    laid = lay(prompts)
    wanted = []
    for number, prompt in enumerate(prompts):
        for depth in range(1, len(prompt) + 1):
            later = (j for j in range(number + 1, len(prompts)) if prompts[j][:depth] == prompt[:depth])
            wanted.append(next(later, len(prompts)))
    assert next_requests(laid.offsets, laid.nodes, laid.known).tolist() == wanted


def test_tails_hold_what_the_input_leaves_for_the_last_block() -> None:
    laid = lay([(1, 2), (1, 2), (), (3,)], inputs=[17, 32, 0, 5])
    assert laid.tails.tolist() == [1, BLOCK_TOKENS, BLOCK_TOKENS, 5]


def test_a_cached_prefix_stops_at_the_border_of_a_scope() -> None:
    trace = build(
        {"arrival_us": [0, 1, 2], "block_ids": [[1, 2], [1, 2], [1, 2]], "cache_scope": ["a", "b", None]}
    )
    assert prompts_of(trace).prompts.known == 6
    assert prompts_of(trace, scoped=False).prompts.known == 2


def test_rows_without_a_list_are_left_out_and_counted() -> None:
    found = prompts_of(build({"arrival_us": [0, 1, 2], "block_ids": [[1], None, []]}))
    assert found.requests.tolist() == [0, 2]
    assert np.diff(found.prompts.offsets).tolist() == [1, 0]
    assert found.without_list == 1


def test_a_trace_without_blocks_is_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match="--unit session"):
        prompts_of(build({"arrival_us": [0]}))
