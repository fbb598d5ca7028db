"""LRU's curve from sampled subtrees: all of them give the exact curve, a part of them its stated error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

from servescope.cache.block_curve import lru_curve
from servescope.cache.block_sample import sampled_curve
from servescope.cache.prompts import prompts_of
from servescope.errors import DataError, UsageError
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS
from tests.traces import build

if TYPE_CHECKING:
    from servescope.trace import Trace


def trace_of(prompts: list[tuple[int, ...]], cuts: tuple[int, ...] = ()) -> Trace:
    columns = {"arrival_us": list(range(len(prompts))), "block_ids": [list(prompt) for prompt in prompts]}
    return build(columns, cuts=cuts, block_tokens=BLOCK_TOKENS)


def made(requests: int) -> Trace:
    """Chats that grow, under one of three templates, drawn with a fixed seed."""
    generator = np.random.default_rng(11)
    chats: list[list[int]] = []
    prompts = []
    for number in range(requests):
        if not chats or generator.random() < 0.4:
            chats.append([int(generator.integers(3)), 10 + number])
        chat = chats[-int(generator.integers(1, min(len(chats), 40) + 1))]
        chat.extend((1000 * number + np.arange(generator.integers(1, 9))).tolist())
        prompts.append(tuple(chat))
    return trace_of(prompts, cuts=(requests // 3,))


@given(PROMPTS)
def test_following_everything_is_exact(prompts: list[tuple[int, ...]]) -> None:
    if not any(prompts):
        return
    trace = trace_of(prompts, cuts=(len(prompts) // 2,))
    exact = lru_curve(prompts_of(trace).prompts).data.to_pylist()
    references = sum(map(len, prompts))
    for row in sampled_curve(trace, 1.0)[0][0].rows():
        hits = [one for one in exact if one["capacity_blocks"] <= row["capacity_blocks"]][-1]
        assert row["block_hit_ratio"] == pytest.approx(hits["block_hits"] / references)
        assert row["block_hit_ratio_error"] == 0


def test_a_part_lies_within_its_error() -> None:
    trace = made(6_000)
    prompts = prompts_of(trace).prompts
    exact = lru_curve(prompts).data
    capacity, hits = (exact[name].to_numpy() for name in ("capacity_blocks", "block_hits"))
    (found, about), notes = sampled_curve(trace, 0.25, seed=3)
    facts = about.rows()[0]
    assert facts["estimated_distinct_blocks"] == pytest.approx(prompts.known, rel=0.1)
    assert 0 < facts["followed_references"] < 0.5 * facts["block_references"]
    assert "0.25 of the subtrees" in notes[0]
    judged = 0
    for row in found.rows():
        if row["capacity_blocks"] < 4 * facts["resolved_blocks"]:
            continue
        true = hits[np.searchsorted(capacity, row["capacity_blocks"], side="right") - 1] / len(prompts.nodes)
        assert abs(row["block_hit_ratio"] - true) < 4 * row["block_hit_ratio_error"] + 0.01
        judged += 1
    assert judged > 20


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    trace = made(500)
    first, again, other = (sampled_curve(trace, 0.3, seed=seed)[0][0].rows() for seed in (1, 1, 2))
    assert first == again != other


def test_impossible_samples_are_refused() -> None:
    trace = trace_of([(1, 2)])
    for rate in (0.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="above 0 to 1"):
            sampled_curve(trace, rate)
    with pytest.raises(UsageError, match="no prefix blocks"):
        sampled_curve(build({"arrival_us": [0]}), 0.5)
    with pytest.raises(DataError, match="larger part"):
        sampled_curve(trace, 1e-15)
