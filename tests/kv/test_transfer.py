"""Moving KV cache against computing it again."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.kv import transfer
from servescope.kv.catalogue import model_named, sequence_bytes
from servescope.kv.sizes import bandwidth, byte_size, written
from servescope.kv.tables import TRANSFER, transfer_table
from servescope.kv.transfer import Prefill


def test_minimax_over_ten_gigabytes_a_second() -> None:
    size = sequence_bytes(model_named("minimax-m2.5"), 100_000)
    assert transfer.transfer_s(size, bandwidth("10GB/s")) == pytest.approx(2.53952, rel=1e-12)
    assert transfer.transfer_s(size, 10e9, latency_s=0.5) == pytest.approx(3.03952, rel=1e-12)


def test_operations_of_a_prompt() -> None:
    # weights: 2 a token and parameter; attention: scores and values over half of n² pairs
    pairs = sum(range(1, 1001)) - 500  # the mean over a token's own half
    assert transfer.prefill_flop(1000, parameters=7.0) == 14_000
    assert transfer.prefill_flop(1000, parameters=0.0, attention_width=3.0) == 4 * 3 * pairs
    speed = Prefill(parameters=8e9, attention_width=32 * 4096, flop_per_s=1e15, utilisation=0.4)
    assert transfer.recompute_s(10_000, speed) == pytest.approx((1.6e14 + 2 * 131_072 * 1e8) / 4e14)
    assert transfer.recompute_s(10_000, Prefill(tokens_per_s=20_000)) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"tokens_per_s": 0.0},
        {"parameters": 1e9},
        {"parameters": 1e9, "flop_per_s": 1e15, "utilisation": 0.0},
        {"parameters": 1e9, "flop_per_s": 1e15, "utilisation": 1.1},
        {"tokens_per_s": float("nan")},
    ],
)
def test_speeds_that_compute_nothing(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="above 0"):
        Prefill(**wrong)


def test_nothing_moves_without_a_bandwidth() -> None:
    with pytest.raises(UsageError, match="above 0"):
        transfer.transfer_s(5, 0)


def test_break_even_by_hand() -> None:
    # 1000 bytes a token over 1 MB/s: 1 ms a token; computed at 500 tokens/s: 2 ms a token; 0.1 s latency
    def size(tokens: int) -> int:
        return 1000 * tokens

    speed = Prefill(tokens_per_s=500)
    assert transfer.break_even_tokens(size, 1e6, speed, latency_s=0.1) == 100
    assert transfer.break_even_tokens(size, 1e6, speed) == 1
    assert transfer.break_even_tokens(size, 1e5, speed) is None


@given(
    st.sampled_from(["llama-3.1-8b", "gpt-oss-120b", "qwen3-next-80b-a3b", "gemma-3-27b"]),
    st.floats(1e6, 1e12),
    st.floats(0, 2),
    st.one_of(
        st.floats(10, 1e6).map(lambda speed: Prefill(tokens_per_s=speed)),
        st.floats(0, 1e6).map(lambda width: Prefill(parameters=1e10, attention_width=width, flop_per_s=1e15)),
    ),
)
def test_break_even_is_where_moving_begins_to_win(
    name: str, speed: float, latency_s: float, prefill: Prefill
) -> None:
    model = model_named(name)

    def wins(tokens: int) -> bool:
        moved = transfer.transfer_s(sequence_bytes(model, tokens), speed, latency_s=latency_s)
        return moved <= transfer.recompute_s(tokens, prefill)

    even = transfer.break_even_tokens(
        lambda tokens: sequence_bytes(model, tokens),
        speed,
        prefill,
        latency_s=latency_s,
        limit_tokens=1 << 20,
    )
    if even is None:
        assert not any(wins(tokens) for tokens in (1, 100, 10_000, 1 << 20))
    else:
        assert wins(even)
        assert wins(even + 1)
        assert even == 1 or not wins(even - 1)
        assert even < 4 or not wins(even // 2)


def test_the_table() -> None:
    model = model_named("minimax-m2.5")
    whole = transfer_table(
        model, [1000, 100_000], bandwidth_bytes_per_s=Fraction(10**10), prefill=Prefill(tokens_per_s=20_000)
    )
    assert whole.schema == TRANSFER
    first, second = whole.to_pylist()
    assert (second["bytes"], second["transfer_s"], second["recompute_s"]) == (25_395_200_000, 2.53952, 5.0)
    assert first["break_even_tokens"] == second["break_even_tokens"] == 1
    bare = transfer_table(model, [7], kv_dtype="fp8", tensor_parallel=16).to_pylist()[0]
    assert bare["bytes"] == 7 * 253_952  # half the bytes an element, two copies of each head
    assert bare["transfer_s"] is bare["recompute_s"] is bare["break_even_tokens"] is None


def test_bandwidths() -> None:
    assert bandwidth("900MiB/s") == 900 * 2**20
    assert bandwidth(" 1.5 GB/s ") == 15 * 10**8
    for wrong in ("10GB", "10Gb/s", "0GB/s", "10", "fast", "", "-1GB/s", "10GB/min"):
        with pytest.raises(UsageError, match="is no bandwidth"):
            bandwidth(wrong)


def test_sizes_in_bytes() -> None:
    assert byte_size("64GiB") == 2**36
    assert byte_size("1.25 kB") == 1250
    assert byte_size("64") is byte_size("64gib") is byte_size("GiB") is byte_size("1e3B") is None


def test_bytes_as_text() -> None:
    assert [written(n) for n in (0, 1023, 1024, 5 * 2**20, 3 * 2**60)] == [
        "0 B", "1023 B", "1 KiB", "5 MiB", "3072 PiB"
    ]  # fmt: skip
