"""Tables of the catalogue and of transfers, as Arrow rows: whoever owns a result names and keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.errors import UsageError
from servescope.kv.catalogue import (
    MOST_RANKS,
    bytes_per_token,
    catalogue,
    element_bytes,
    fixed_bytes,
    sequence_bytes,
)
from servescope.kv.transfer import break_even_tokens, recompute_s, transfer_s

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from servescope.kv.model import Model
    from servescope.kv.transfer import Prefill

MODELS_DOC = (
    "A model: bytes of KV cache that a token adds beyond all windows, bytes a long sequence holds besides "
    "(windows and states); all ranks of a replica together."
)
MODELS = pa.schema(
    {
        "model": pa.string(),
        "family": pa.string(),
        "attention": pa.string(),
        "kv_dtype": pa.string(),
        "tensor_parallel": pa.int64(),
        "bytes_per_token": pa.float64(),
        "fixed_bytes": pa.int64(),
        "layers": pa.int64(),
        "full_layers": pa.int64(),
        "window_layers": pa.int64(),
        "state_layers": pa.int64(),
        "window_tokens": pa.int64(),
        "max_position": pa.int64(),
        "verified": pa.bool_(),
    }
)
MOST_TOKENS = 10**9
TRANSFER_DOC = (
    "Moving the KV cache of so many tokens one way, beside computing it again; break_even_tokens: from there "
    "on moving takes no longer, null where it always takes longer."
)
TRANSFER = pa.schema(
    {
        "model": pa.string(),
        "kv_dtype": pa.string(),
        "tensor_parallel": pa.int64(),
        "tokens": pa.int64(),
        "bytes": pa.int64(),
        "bandwidth_bytes_per_s": pa.float64(),
        "transfer_s": pa.float64(),
        "recompute_s": pa.float64(),
        "break_even_tokens": pa.int64(),
    }
)


def model_row(model: Model, *, kv_dtype: str | None = None, tensor_parallel: int = 1) -> dict[str, Any]:
    """One row of `MODELS`. Raises UsageError as `bytes_per_token` does."""
    chosen: dict[str, Any] = {"kv_dtype": kv_dtype, "tensor_parallel": tensor_parallel}
    states = [group for group in model.groups if group.kind == "state"]
    tokens = [group for group in model.groups if group.kind not in ("state", "index")]
    windows = [group for group in tokens if group.window_tokens is not None]
    return {
        "model": model.name,
        "family": model.family,
        "attention": model.attention,
        "kv_dtype": kv_dtype or model.dtype,
        "tensor_parallel": tensor_parallel,
        "bytes_per_token": float(bytes_per_token(model, **chosen)),
        "fixed_bytes": fixed_bytes(model, **chosen),
        "layers": model.layers,
        "full_layers": sum(group.layers for group in tokens if group.window_tokens is None),
        "window_layers": sum(group.layers for group in windows),
        "state_layers": sum(group.layers for group in states),
        "window_tokens": max((group.window_tokens or 0 for group in windows), default=None),
        "max_position": model.max_position,
        "verified": model.verified,
    }


def models_table(
    models: Iterable[Model], *, kv_dtype: str | None = None, tensor_parallel: int = 1
) -> tuple[pa.Table, list[str]]:
    """Rows of `MODELS` in the order given, and names of the models that so many ranks cannot split.

    Raises UsageError for an unknown precision, or fewer than one rank.
    """
    element_bytes(kv_dtype or "bf16")
    rows, left = [], []
    for model in models:
        try:
            rows.append(model_row(model, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel))
        except UsageError:
            if not 1 <= tensor_parallel <= MOST_RANKS:
                raise
            left.append(model.name)
    return pa.Table.from_pylist(rows, MODELS), left


def model_notes(model: Model) -> list[str]:
    """Where the row comes from, and what a reader must know of it."""
    said = [f"{model.config}, from {catalogue().sources[model.source]}"]
    if model.note:
        said.append(model.note)
    if not model.verified:
        said.append("not every number was seen in the model's own configuration")
    return said


def transfer_table(
    model: Model,
    tokens: Iterable[int],
    *,
    bandwidth_bytes_per_s: float | Fraction | None = None,
    prefill: Prefill | None = None,
    kv_dtype: str | None = None,
    tensor_parallel: int = 1,
    latency_s: float = 0.0,
) -> pa.Table:
    """Rows of `TRANSFER`, one a length; what is not given stays null.

    tokens                 lengths of sequences
    bandwidth_bytes_per_s  of one way, all ranks together
    prefill                how fast the replica computes prompts

    Raises UsageError for a length beyond `MOST_TOKENS`, and as `sequence_bytes` and `transfer_s` do.
    """

    tokens = tuple(tokens)
    if too_long := [count for count in tokens if not 0 <= count <= MOST_TOKENS]:
        raise UsageError(f"--tokens is {too_long[0]}; give 0 to {MOST_TOKENS:,}.")

    def size(count: int) -> int:
        return sequence_bytes(model, count, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)

    even = None
    if bandwidth_bytes_per_s is not None and prefill is not None:
        even = break_even_tokens(size, bandwidth_bytes_per_s, prefill, latency_s=latency_s)
    rows = [
        {
            "model": model.name,
            "kv_dtype": kv_dtype or model.dtype,
            "tensor_parallel": tensor_parallel,
            "tokens": count,
            "bytes": size(count),
            "bandwidth_bytes_per_s": None if bandwidth_bytes_per_s is None else float(bandwidth_bytes_per_s),
            "transfer_s": None
            if bandwidth_bytes_per_s is None
            else transfer_s(size(count), bandwidth_bytes_per_s, latency_s=latency_s),
            "recompute_s": None if prefill is None else recompute_s(count, prefill),
            "break_even_tokens": even,
        }
        for count in tokens
    ]
    return pa.Table.from_pylist(rows, TRANSFER)
