"""The workload-aware policy: its score, its fit, its published ratios, and a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.categories import categories_of
from servescope.cache.policies import workload
from servescope.cache.policies.counts import PEAK
from servescope.cache.policies.workload import reuse_probability
from servescope.cache.prompts import Prompts, prompts_of
from servescope.errors import UsageError
from tests.cache.prompts import PROMPTS, hits_of, lay
from tests.reference import block_policies
from tests.shared import DATA, needs_data
from tests.traces import build

LIVES = (5, 60, 600)
VECTORS = {  # kv-reuse, A.2: seconds idle -> A (rate 0.01, p 0.8) and B (rate 0.1, p 0.5) for each life
    0: ((0.039016, 0.360951, 0.798017), (0.196735, 0.498761, 0.500000)),
    1: ((0.038628, 0.357359, 0.790077), (0.178013, 0.451297, 0.452419)),
    10: ((0.035304, 0.326602, 0.722076), (0.072375, 0.183484, 0.183940)),
    30: ((0.028904, 0.267399, 0.591186), (0.009795, 0.024832, 0.024894)),
    60: ((0.021413, 0.198094, 0.437961), (0.000488, 0.001236, 0.001239)),
    300: ((0.001943, 0.017971, 0.039731), (0, 0, 0)),
}


@pytest.mark.parametrize("idle", VECTORS)
def test_the_score_has_the_published_values(idle: float) -> None:
    wide, narrow = VECTORS[idle]
    assert reuse_probability(idle, 0.01, 0.8, LIVES) == pytest.approx(wide, abs=5e-7)
    assert reuse_probability(idle, 0.1, 0.5, LIVES) == pytest.approx(narrow, abs=5e-7)


@given(
    PROMPTS,
    st.integers(0, 8),
    st.booleans(),
    st.lists(st.integers(0, 2), min_size=14, max_size=14),
    st.sampled_from([1.0, 30.0]),
)
def test_hits_are_those_of_plain_python(
    prompts: list[tuple[int, ...]], capacity: int, strict: bool, kinds: list[int], life_s: float
) -> None:
    kinds = kinds[: len(prompts)]
    laid = lay(prompts)._replace(categories=np.array(kinds, np.int32))
    found, state = hits_of(workload, laid, capacity, life_s=life_s, strict=float(strict))
    fit_at = len(prompts) // 2
    assert found == block_policies.workload_aware(
        prompts, capacity, range(len(prompts)), kinds, life_s=life_s, strict=strict, fit_at=fit_at
    )
    assert state.counts[PEAK] <= capacity
    if strict:
        assert workload.details(state)["orphaned"] == 0


def test_rates_and_probabilities_are_the_means_of_a_window() -> None:
    """Category 0 touches block 1 at 0 s and 2 s, category 1 block 2 at 4 s, never again."""
    laid = lay([(1,), (9,), (1,), (9,), (2,), (8,)])._replace(
        categories=np.array([0, 1, 0, 1, 1, 0], np.int32)
    )
    _, state = hits_of(workload, laid, 10, window_s=5.0, fit_share=0.0)
    rates = [details for name, details in workload.details(state).items() if name != "orphaned"]
    assert rates == pytest.approx([1 / 2, 1 / 2])  # both were reused once, after 2 s
    assert state.scores[:, 0] == pytest.approx(
        np.log(reuse_probability(0, [0.5, 0.5], [1 / 2, 1 / 3], 60)), abs=1e-12
    )


@pytest.mark.parametrize("wrong", [{"life_s": 0.0}, {"fit_share": 1.5}, {"window_s": -1.0}])
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="life_s > 0"):
        workload.new(lay([(1,)]), 1, 0, **wrong)


def test_categories_are_type_and_turn_where_they_are_stated() -> None:
    trace = build(
        {
            "arrival_us": [0, 1, 2, 3],
            "block_ids": [[1], [1], [1], [1]],
            "request_type": ["file", "text", None, "text"],
            "turn": [1, 2, 1, 9],
        }
    )
    found = categories_of(prompts_of(trace), trace.names("request_type"))
    assert [found.names[code] for code in found.codes] == ["file_1", "text_2", "untyped_1", "text_4+"]
    assert found.source == "stated"


def test_turns_come_from_the_ids_where_none_are_stated() -> None:
    found = categories_of(prompts_of(build({
        "arrival_us": [0, 1, 2, 3],
        "block_ids": [[1, 2], [1, 2, 3], [7], [1, 2, 3, 4]],
    })), [])  # fmt: skip
    assert [found.names[code] for code in found.codes] == ["1", "2", "1", "3"]
    assert found.source == "block ids"


PUBLISHED = {  # kv-reuse, A.6: hit ratio of the second half for life 30, 120, 600 s
    "conversation": {
        2_000: (0.0857, 0.0840, 0.0796),
        5_000: (0.1410, 0.1380, 0.1284),
        10_000: (0.2254, 0.2230, 0.2204),
        20_000: (0.2998, 0.2989, 0.2970),
    },
    "synthetic": {
        2_000: (0.2103, 0.2150, 0.2226),
        5_000: (0.4126, 0.4148, 0.4129),
        10_000: (0.5997, 0.6012, 0.5939),
        20_000: (0.7597, 0.7531, 0.7463),
    },
}


def second_half(laid: Prompts, hits: list[int]) -> float:
    half = len(hits) // 2
    return sum(hits[half:]) / float(laid.offsets[-1] - laid.offsets[half])


@needs_data
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_hit_ratios_of_mooncake(name: str) -> None:
    found = prompts_of(ss.read(DATA / f"mooncake_{name}.jsonl"))
    laid = found.prompts._replace(categories=categories_of(found, []).codes)
    for capacity, published in PUBLISHED[name].items():
        for life_s, ratio in zip((30.0, 120.0, 600.0), published, strict=True):
            ahead, _ = hits_of(workload, laid, capacity, life_s=life_s, ahead=1)
            assert second_half(laid, ahead) == pytest.approx(ratio, abs=6e-5)
            online, _ = hits_of(workload, laid, capacity, life_s=life_s)
            assert second_half(laid, online) == pytest.approx(ratio, abs=0.002)


@needs_data
def test_strict_differs_little_from_paper_on_conversation() -> None:
    found = prompts_of(ss.read(DATA / "mooncake_conversation.jsonl"))
    laid = found.prompts._replace(categories=categories_of(found, []).codes)
    paper, _ = hits_of(workload, laid, 5_000, life_s=30.0, ahead=1)
    strict, state = hits_of(workload, laid, 5_000, life_s=30.0, ahead=1, strict=1)
    assert second_half(laid, strict) == pytest.approx(second_half(laid, paper), abs=1.5e-4)
    assert state.tallies[1] == 0
