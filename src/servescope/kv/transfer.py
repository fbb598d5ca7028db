"""Moving the KV cache of a prompt against computing it again.

Moving takes latency + bytes / bandwidth. Computing takes tokens / prefill throughput where the throughput is
known, else floating-point operations / (peak · utilisation). Operations of a forward pass over n tokens:
2 · parameters · n for the weights, and 2 · width · n² for attention, width = layers · query heads · head
size: a token attends to n / 2 earlier ones on average, and scores and values take 2 operations an element
each. Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1 and table 1; Chowdhery et al. 2022 (arXiv
2204.02311), appendix B, has the same without halving for the mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

LIMIT_TOKENS = 1 << 24  # no break-even is looked for beyond 16 M tokens


def transfer_s(
    size_bytes: float | Fraction, bandwidth_bytes_per_s: float | Fraction, *, latency_s: float = 0.0
) -> float:
    """Seconds to move `size_bytes` one way. Raises UsageError for a bandwidth of 0 or less.

    >>> transfer_s(25_395_200_000, 10e9)
    2.53952
    """
    if not bandwidth_bytes_per_s > 0:
        raise UsageError(f"nothing moves at {bandwidth_bytes_per_s} bytes/s; name a bandwidth above 0.")
    return latency_s + float(size_bytes / bandwidth_bytes_per_s)


@dataclass(frozen=True)
class Prefill:
    """How fast prompts are computed: by measured throughput, or by operations.

    tokens_per_s     prompt tokens a second of one replica, None = by operations
    parameters       weights that a token passes (active ones of a mixture of experts)
    attention_width  layers · query heads · head size of full attention, 0 leaves attention out
    flop_per_s       peak operations a second of the replica
    utilisation      share of the peak that prefill reaches, above 0 up to 1
    """

    tokens_per_s: float | None = None
    parameters: float = 0.0
    attention_width: float = 0.0
    flop_per_s: float = 0.0
    utilisation: float = 0.5

    def __post_init__(self) -> None:
        """Raise UsageError for a speed that computes nothing."""
        if self.tokens_per_s is not None:
            if not self.tokens_per_s > 0:
                raise UsageError(f"a prefill of {self.tokens_per_s} tokens/s never ends; name one above 0.")
        elif not (self.flop_per_s > 0 and self.parameters > 0 and 0 < self.utilisation <= 1):
            raise UsageError(
                "the time to compute a prompt needs the prefill throughput (tokens/s), or parameters, peak "
                "operations a second and a utilisation above 0 up to 1."
            )


def prefill_flop(tokens: int, *, parameters: float, attention_width: float = 0.0) -> float:
    """Operations of a forward pass over a prompt of `tokens` tokens (the module's formula).

    >>> prefill_flop(1000, parameters=8e9)
    16000000000000.0
    """
    return 2.0 * parameters * tokens + 2.0 * attention_width * tokens * tokens


def recompute_s(tokens: int, prefill: Prefill) -> float:
    """Seconds to compute the prompt again.

    >>> recompute_s(100_000, Prefill(tokens_per_s=20_000))
    5.0
    """
    if prefill.tokens_per_s is not None:
        return tokens / prefill.tokens_per_s
    flop = prefill_flop(tokens, parameters=prefill.parameters, attention_width=prefill.attention_width)
    return flop / (prefill.flop_per_s * prefill.utilisation)


def break_even_tokens(
    size_bytes: Callable[[int], int],
    bandwidth_bytes_per_s: float | Fraction,
    prefill: Prefill,
    *,
    latency_s: float = 0.0,
    limit_tokens: int = LIMIT_TOKENS,
) -> int | None:
    """Fewest tokens from which on moving takes no longer than computing; None up to `limit_tokens`.

    size_bytes  bytes of a sequence by its tokens (`catalogue.sequence_bytes`)

    Moving grows at most linearly once a sequence has begun, computing at least linearly, so there is one
    crossing, found by halving.
    """

    def moving_wins(tokens: int) -> bool:
        moved = transfer_s(size_bytes(tokens), bandwidth_bytes_per_s, latency_s=latency_s)
        return moved <= recompute_s(tokens, prefill)

    if not moving_wins(limit_tokens):
        return None
    low, high = 0, limit_tokens  # moving wins at `high`, not at `low`
    while high - low > 1:
        middle = (low + high) // 2
        if moving_wins(middle):
            high = middle
        else:
            low = middle
    return high
