"""Bytes of KV cache by model."""

from __future__ import annotations

import importlib
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.kv import catalogue as kv
from servescope.kv.model import LayerGroup, Model

MODELS = kv.catalogue().models
NAMES = [model.name for model in MODELS]
SIMULATED = {"bf16": "bf16_fp16", "fp8": "fp8_int8", "fp4": "fp4_int4"}


def test_rows_are_sound() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 90
    spellings = [spelling.lower() for model in MODELS for spelling in (model.name, *model.aliases)]
    assert len(spellings) == len(set(spellings))
    for model in MODELS:
        assert model.source in kv.catalogue().sources, model.name
        assert model.dtype in kv.ELEMENT_BYTES, model.name
        keeping = sum(group.layers for group in model.groups if group.kind != "index")
        compressed = any(group.tokens_per_entry > 1 for group in model.groups)  # a second entry of a layer
        assert model.layers >= keeping or compressed or "share" in model.note, model.name
        for group in model.groups:
            assert (group.kind == "state") != bool(group.entry_elements), model.name
            assert group.dtype is None or group.dtype in kv.ELEMENT_BYTES, model.name
    assert kv.DATA.stat().st_size < 1_000_000
    assert set(kv.catalogue().sources) == {model.source for model in MODELS}


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_the_kind_of_attention_fits_the_groups(model: Model) -> None:
    kinds = {group.kind for group in model.groups}
    windows = any(group.window_tokens for group in model.groups)
    expected = (
        "hybrid" if "state" in kinds else "sliding" if windows else "mla" if "latent" in kinds else None
    )
    if expected:
        assert model.attention == expected
    else:
        assert model.attention in ("mha", "gqa")
        assert "heads" in kinds


# kilobytes a token in 16 bits, from papers and model cards: an independent look at the rows
@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("llama-2-7b", 2 * 32 * 32 * 128 * 2),
        ("llama-3.1-70b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("deepseek-v3", 61 * 576 * 2),
        ("minimax-m2.5", 253_952),
        ("qwen3-next-80b-a3b", 12 * 2 * 2 * 256 * 2),
        ("nemotron-3-nano-30b-a3b", 6_144),
        ("glm-4.7-flash", 54_144),
        ("mistral-7b-v0.1", 0),
    ],
)
def test_known_rates(name: str, rate: int) -> None:
    assert kv.bytes_per_token(kv.model_named(name)) == rate


def test_a_hundred_thousand_tokens_of_minimax() -> None:
    size = kv.sequence_bytes(kv.model_named("minimax-m2.5"), 100_000)
    assert round(size / 1e9, 1) == 25.4
    assert round(size / 10e9, 1) == 2.5


def test_names() -> None:
    assert kv.model_named("MiniMaxAI/MiniMax-M2.5-TEE").name == "minimax-m2.5"
    assert kv.model_named("llama-3.1-8b-instruct").name == "llama-3.1-8b"
    assert kv.model_named("somebody/Qwen3-32B").name == "qwen3-32b"
    with pytest.raises(UsageError, match=r'unknown model "minimax-2\.5"\. Did you mean minimax-m2\.5'):
        kv.model_named("minimax-2.5")
    with pytest.raises(UsageError, match=r'"zzzz"\. `servescope kv` lists'):
        kv.model_named("zzzz")


def test_simulated_data() -> None:
    model = kv.model_named("llama-3.1-8b")
    rates = {dtype: kv.bytes_per_token(model, kv_dtype=dtype) for dtype in kv.ELEMENT_BYTES}
    assert rates["bf16"] == rates["fp16"] == 131_072
    assert rates["fp8"] == rates["int8"] == 65_536
    assert rates["int4"] == 32_768
    with pytest.raises(UsageError, match="unknown precision of the KV cache"):
        kv.bytes_per_token(model, kv_dtype="float8")
    with pytest.raises(UsageError, match="unknown precision of the KV cache"):
        kv.bytes_per_token(kv.model_named("mistral-7b-v0.1"), kv_dtype="float8")


def test_copies_of_tensor_parallelism() -> None:
    heads = kv.model_named("llama-3.1-8b")  # 8 KV heads
    one = kv.bytes_per_token(heads)
    assert [kv.bytes_per_token(heads, tensor_parallel=n) / one for n in (1, 2, 8, 16, 32)] == [1, 1, 1, 2, 4]
    latent = kv.model_named("deepseek-v3")
    assert kv.bytes_per_token(latent, tensor_parallel=8) == 8 * kv.bytes_per_token(latent)
    hybrid = kv.model_named("qwen3-next-80b-a3b")  # 2 KV heads, 32 heads of the state
    assert kv.fixed_bytes(hybrid, tensor_parallel=8) == kv.fixed_bytes(hybrid)
    assert kv.bytes_per_token(hybrid, tensor_parallel=8) == 4 * kv.bytes_per_token(hybrid)
    for ranks in (3, 12):
        with pytest.raises(UsageError, match="cannot be split over"):
            kv.bytes_per_token(heads, tensor_parallel=ranks)
    with pytest.raises(UsageError, match="1 or more"):
        kv.sequence_bytes(heads, 5, tensor_parallel=0)


def test_windows_fill_and_stay() -> None:
    model = kv.model_named("gpt-oss-120b")  # 18 full layers, 18 with a window of 128, 2 · 8 · 64 elements
    layer = 2 * 8 * 64 * 2
    assert kv.sequence_bytes(model, 0) == 0
    assert kv.sequence_bytes(model, 100) == 100 * 36 * layer
    assert kv.sequence_bytes(model, 1000) == (1000 * 18 + 128 * 18) * layer
    assert kv.fixed_bytes(model) == 128 * 18 * layer
    with pytest.raises(UsageError, match="cannot have -1 tokens"):
        kv.sequence_bytes(model, -1)


def test_states_are_there_from_the_first_token() -> None:
    model = kv.model_named("nemotron-3-nano-30b-a3b")
    state = 23 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2)
    assert kv.fixed_bytes(model) == state
    assert kv.sequence_bytes(model, 1) == 6_144 + state


def test_how_a_capacity_in_bytes_is_converted() -> None:
    assert kv.capacity_rate(kv.model_named("llama-3.1-8b")) == (131_072, [])
    assert kv.capacity_rate(kv.model_named("llama-3.1-8b"), context_tokens=77) == (131_072, [])
    model = kv.model_named("gpt-oss-120b")
    rate, notes = kv.capacity_rate(model)
    assert rate == 36_864
    assert "windows and states take up to 4.5 MiB more for each kept sequence" in notes[0]
    mean, said = kv.capacity_rate(model, context_tokens=1000)
    assert mean == Fraction(kv.sequence_bytes(model, 1000), 1000)
    assert "mean of a sequence of 1,000 tokens" in said[0]
    windows, warned = kv.capacity_rate(kv.model_named("mistral-7b-v0.1"))
    assert windows == 131_072
    assert "every layer keeps a window only" in warned[0]
    with pytest.raises(UsageError, match="holds nothing"):
        kv.capacity_rate(model, context_tokens=0)
    state = LayerGroup("state", 4, state_heads=4, recurrent_elements=10)
    with pytest.raises(UsageError, match="--bytes-per-token"):
        kv.capacity_rate(Model("m", (), "f", "hybrid", 4, "bf16", (state,), "s", "c"))


@given(st.sampled_from(MODELS), st.integers(0, 300_000), st.sampled_from([1, 2, 8]))
def test_longer_sequences_hold_no_less(model: Model, tokens: int, ranks: int) -> None:
    try:
        rate = kv.bytes_per_token(model, tensor_parallel=ranks)
    except UsageError:
        return  # heads that so many ranks cannot split: tested above
    size = kv.sequence_bytes(model, tokens, tensor_parallel=ranks)
    assert size <= kv.sequence_bytes(model, tokens + 1, tensor_parallel=ranks)
    bound = rate * tokens + kv.fixed_bytes(model, tensor_parallel=ranks)
    if tokens:
        assert size <= bound
        # an entry of several tokens counts when it is whole
        assert tokens < 8_192 or size >= bound - rate * 128


@cache
def simulator() -> dict[str, dict[str, Any]]:
    """Rows of kvcache-simulator by name; empty where it is not installed."""
    return {row["id"]: row for row in simulated_data().get("models", [])}


@cache
def simulated_data() -> dict[str, Any]:
    """All data of kvcache-simulator, read once: its YAML takes a second."""
    try:
        calculator = importlib.import_module("kvcache_sim.calculator")
    except ModuleNotFoundError:
        return {}
    return calculator.load_models_data()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", sorted(set(NAMES) & set(simulator())))
def test_sizes_equal_those_of_kvcache_simulator(name: str) -> None:
    calculator = pytest.importorskip("kvcache_sim.calculator")
    row, model = simulator()[name], kv.model_named(name)
    assert model.max_position == row["max_position_embeddings"]
    for dtype, precision in SIMULATED.items():
        index = next((g.dtype or dtype for g in model.groups if g.kind == "index"), dtype)
        for tokens in (128, 1000, 4096, 131_072):
            theirs = calculator.calculate_cache_size(
                row,
                tokens=tokens,
                precision=precision,
                indexer_precision=SIMULATED[index],
                models_data=simulated_data(),
                include_linear_attention_state=True,
            )
            assert kv.sequence_bytes(model, tokens, kv_dtype=dtype) == theirs.total_bytes


def test_most_of_its_models_are_ours() -> None:
    pytest.importorskip("kvcache_sim.calculator")
    known = set(simulator())
    missing = {"dots3-note-prev", "deepseek-v4.1-flash", "glm-5.3-flash", "inkling", "inkling-small"}
    assert known - set(NAMES) == missing  # its own calculator has no formula for them either
