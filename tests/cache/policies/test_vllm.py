"""vLLM's queue of slots against a plain twin, with partial blocks, running requests and answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.answers import with_answers, with_running
from servescope.cache.policies import block_lru, vllm
from servescope.cache.policies.counts import PEAK
from servescope.cache.prompts import prompts_of
from servescope.errors import UsageError
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS, hits_of, lay
from tests.reference import block_policies
from tests.shared import DATA, needs_data
from tests.traces import build

SEVERAL = st.lists(st.integers(0, 40), min_size=14, max_size=14)


def inputs_of(prompts: list[tuple[int, ...]], missing: list[int]) -> list[int]:
    return [
        16 * len(prompt) - lacks % 16 if prompt else 0
        for prompt, lacks in zip(prompts, missing, strict=False)
    ]


@given(PROMPTS, st.integers(0, 8), SEVERAL)
def test_hits_are_those_of_plain_python(
    prompts: list[tuple[int, ...]], capacity: int, missing: list[int]
) -> None:
    inputs = inputs_of(prompts, missing)
    found, state = hits_of(vllm, lay(prompts, inputs), capacity)
    assert found == block_policies.vllm(prompts, inputs, BLOCK_TOKENS, capacity)
    assert state.counts[PEAK] <= capacity


@given(PROMPTS, st.integers(0, 10), SEVERAL, SEVERAL, st.lists(st.integers(0, 4), min_size=14, max_size=14))
def test_running_requests_and_answers_take_room(
    prompts: list[tuple[int, ...]],
    capacity: int,
    missing: list[int],
    outputs: list[int],
    seconds: list[int],
) -> None:
    number = len(prompts)
    inputs, outputs = inputs_of(prompts, missing), outputs[:number]
    ends = [request + seconds[request] for request in range(number)]
    found = prompts_of(
        build(
            {
                "arrival_us": [request * 1_000_000 for request in range(number)],
                "completed_us": [end * 1_000_000 for end in ends],
                "block_ids": [list(prompt) for prompt in prompts],
                "input_tokens": inputs,
                "output_tokens": outputs,
            },
            block_tokens=BLOCK_TOKENS,
        )
    )
    laid = with_answers(found, with_running(found)[0])
    for answers in (1, 2):
        left = [()] * number
        if answers == 2:
            names = {node: path for prompt in prompts for node, path in _nodes(laid, prompts, prompt)}
            left = [
                [names[node] for node in laid.answer_nodes[low:high]]
                for low, high in zip(laid.answer_offsets[:-1], laid.answer_offsets[1:], strict=True)
            ]
        assert hits_of(vllm, laid, capacity, answers=answers)[0] == block_policies.vllm(
            prompts,
            inputs,
            BLOCK_TOKENS,
            capacity,
            outputs=outputs,
            runs=[end - 1 for end in ends],
            answers=left,
        )


def _nodes(laid: object, prompts: list[tuple[int, ...]], prompt: tuple[int, ...]) -> list[tuple[int, tuple]]:
    low = laid.offsets[prompts.index(prompt)]  # type: ignore[attr-defined]
    return [(int(laid.nodes[low + depth]), prompt[: depth + 1]) for depth in range(len(prompt))]  # type: ignore[attr-defined]


def test_the_answer_of_a_request_hits_in_its_follow_up() -> None:
    found = prompts_of(
        build(
            {
                "arrival_us": [0, 1],
                "block_ids": [[1, 2], [1, 3, 4, 5]],
                "input_tokens": [24, 64],
                "output_tokens": [30, 1],
                "parent_id": [None, 0],
            },
            block_tokens=16,
        )
    )
    laid = with_answers(found, found.prompts)
    # 24 + 30 tokens are three whole blocks: 1, and two that only the follow-up shows
    assert laid.answer_nodes.tolist() == laid.nodes[3:5].tolist()
    assert hits_of(vllm, laid, 10, answers=1)[0] == [0, 1]
    assert hits_of(vllm, laid, 10, answers=2)[0] == [0, 3]


def test_the_last_token_is_never_a_hit() -> None:
    laid = lay([(1, 2), (1, 2)], inputs=[32, 32])
    assert hits_of(vllm, laid, 10)[0] == [0, 1]
    assert hits_of(block_lru, laid, 10)[0] == [0, 2]


def test_requests_without_an_end_are_noted() -> None:
    found = prompts_of(build({"arrival_us": [0, 5], "block_ids": [[1], [1]]}))
    prompts, notes = with_running(found, stand_in_s=2)
    assert prompts.ends_us.tolist() == [2_000_000, 2_000_005]
    assert "2 of 2 requests" in notes[0] and "2 s, a stand-in" in notes[0]
    with pytest.raises(UsageError, match="at least 0"):
        with_running(found, stand_in_s=-1)


@pytest.mark.parametrize("answers", [3, 0.5])
def test_other_answers_are_refused(answers: float) -> None:
    with pytest.raises(UsageError, match="answers=0, 1 or 2"):
        vllm.new(lay([(1,)]), 1, 0, answers=answers)


@needs_data
def test_on_whole_blocks_vllm_is_leaf_lru_but_for_the_last_token() -> None:
    """Mooncake's partial last blocks have ids of their own, so they never hit."""
    laid = prompts_of(ss.read(DATA / "mooncake_conversation.jsonl")).prompts
    whole = np.diff(laid.offsets) - (laid.tails < laid.block_tokens)
    for capacity in (5_000, 20_000):
        lru = np.minimum(hits_of(block_lru, laid, capacity)[0], whole)
        found = np.array(hits_of(vllm, laid, capacity)[0])
        assert abs(int(found.sum()) - int(lru.sum())) < 0.01 * lru.sum()
