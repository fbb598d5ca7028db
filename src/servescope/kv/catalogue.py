"""Models by name, and the bytes of KV cache that their tokens and sequences take.

A number here counts all ranks of one replica together, elements times bytes: scales of quantised caches,
padding of blocks and layers that only draft tokens are not counted.
"""

from __future__ import annotations

import difflib
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from servescope.errors import UsageError, unknown_name
from servescope.kv.model import Catalogue, LayerGroup, Model
from servescope.kv.sizes import written

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_RANKS = 65_536
DATA = Path(__file__).resolve().parent / "models.json"
ELEMENT_BYTES: dict[str, Fraction] = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
    "int4": Fraction(1, 2),
}


@cache
def catalogue() -> Catalogue:
    """The whole catalogue, read once."""
    return msgspec.json.decode(DATA.read_bytes(), type=Catalogue)


@cache
def _by_name() -> dict[str, Model]:
    """Models by every spelling, in lower case: name, alias, and alias without its owner."""
    table: dict[str, Model] = {}
    for model in catalogue().models:
        for spelling in (model.name, *model.aliases, *(alias.split("/")[-1] for alias in model.aliases)):
            table.setdefault(spelling.lower(), model)
    return table


def model_named(name: str) -> Model:
    """The model of that name or alias, whatever the case; the owner of a repository may be left out.

    Raises UsageError for an unknown name; it names the closest ones.

    >>> model_named("MiniMaxAI/MiniMax-M2.5").name
    'minimax-m2.5'
    """
    table = _by_name()
    wanted = name.strip().lower()
    for spelling in (wanted, wanted.split("/")[-1]):
        if spelling in table:
            return table[spelling]
    close = difflib.get_close_matches(wanted.split("/")[-1], table, n=9)
    near = dict.fromkeys(table[spelling].name for spelling in close)  # spellings of one model count once
    hint = f" Did you mean {' or '.join(list(near)[:3])}?" if near else ""
    raise UsageError(f'unknown model "{name}".{hint} `servescope kv` lists the known ones.')


def element_bytes(dtype: str) -> Fraction:
    """Bytes of one element. Raises UsageError for an unknown precision."""
    if dtype not in ELEMENT_BYTES:
        raise unknown_name("precision of the KV cache", dtype, ELEMENT_BYTES)
    return ELEMENT_BYTES[dtype]


def bytes_per_token(model: Model, *, kv_dtype: str | None = None, tensor_parallel: int = 1) -> Fraction:
    """Bytes that one more token adds to a sequence that is longer than every window.

    kv_dtype         precision of the cache (`ELEMENT_BYTES`), None = the model's default
    tensor_parallel  ranks of one replica; the bytes are those of all ranks: a latent is copied to each, KV
                     heads once more where there are fewer heads than ranks
    returns          exact; 0 where every layer keeps a window or a state only

    Raises UsageError for an unknown precision, or ranks that cannot split the heads.

    >>> bytes_per_token(model_named("minimax-m2.5"))
    Fraction(253952, 1)
    """
    lasting = (group for group in model.groups if group.window_tokens is None and group.kind != "state")
    return _rate(model, lasting, kv_dtype, tensor_parallel)


def sequence_bytes(
    model: Model, tokens: int, *, kv_dtype: str | None = None, tensor_parallel: int = 1
) -> int:
    """Bytes that a sequence of `tokens` tokens holds: every token, windows filled so far, states.

    kv_dtype, tensor_parallel  as in `bytes_per_token`, and the same errors
    returns                    bytes of all ranks, a half byte at the end rounded up; 0 for no tokens

    >>> sequence_bytes(model_named("minimax-m2.5"), 100_000)
    25395200000
    """
    if tokens < 0:
        raise UsageError(f"a sequence cannot have {tokens} tokens; name 0 or more.")
    if tokens == 0:
        return 0
    total = Fraction(0)
    for group in model.groups:
        copies = _copies(model, group, tensor_parallel)
        if group.kind == "state":
            total += copies * _state_bytes(group)
        else:
            kept = tokens if group.window_tokens is None else min(tokens, group.window_tokens)
            entries = kept // group.tokens_per_entry
            total += copies * _entry_bytes(model, group, kv_dtype) * entries
    return ceil(total)


def fixed_bytes(model: Model, *, kv_dtype: str | None = None, tensor_parallel: int = 1) -> int:
    """Bytes that a long sequence holds whatever its length: full windows and states (as `sequence_bytes`)."""
    total = Fraction(0)
    for group in model.groups:
        copies = _copies(model, group, tensor_parallel)
        if group.kind == "state":
            total += copies * _state_bytes(group)
        elif group.window_tokens is not None:
            total += copies * _entry_bytes(model, group, kv_dtype) * group.window_tokens
    return ceil(total)


def capacity_rate(
    model: Model, *, kv_dtype: str | None = None, tensor_parallel: int = 1, context_tokens: int | None = None
) -> tuple[Fraction, list[str]]:
    """Bytes per token by which a cache size in bytes is divided, and what a reader must know of it.

    Without `context_tokens`: `bytes_per_token`, so windows and states are memory on top, one each kept
    sequence. Where that is 0 (a window in every layer), the bytes of a token inside the windows. With
    `context_tokens`: the mean of a sequence of that length, `sequence_bytes / context_tokens`.

    kv_dtype, tensor_parallel  as in `bytes_per_token`, and the same errors
    Raises UsageError where the model keeps no tokens at all, or `context_tokens` is below 1.
    """
    fixed = fixed_bytes(model, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
    if context_tokens is not None:
        if context_tokens < 1:
            raise UsageError(f"a context of {context_tokens} tokens holds nothing; name 1 or more.")
        whole = sequence_bytes(model, context_tokens, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
        said = f"{model.name}: bytes per token are the mean of a sequence of {context_tokens:,} tokens"
        return Fraction(whole, context_tokens), [said] if fixed else []
    rate = bytes_per_token(model, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
    if rate:
        said = (
            f"{model.name}: a token is counted in the layers that keep all tokens; windows and states take "
            f"up to {written(fixed)} more for each kept sequence, which the capacity does not hold"
        )
        return rate, [said] if fixed else []
    inside = [group for group in model.groups if group.kind != "state"]
    rate = _rate(model, inside, kv_dtype, tensor_parallel)
    if not rate:
        raise UsageError(f"{model.name} keeps no tokens, only a state; give --bytes-per-token N.")
    return rate, [
        f"{model.name}: every layer keeps a window only; a token is counted as inside it, so a capacity in "
        "bytes holds at least the tokens named"
    ]


def _rate(model: Model, groups: Iterable[LayerGroup], kv_dtype: str | None, tensor_parallel: int) -> Fraction:
    """Bytes of one token in `groups`, all ranks together."""
    element_bytes(kv_dtype or model.dtype)
    for group in model.groups:
        _copies(model, group, tensor_parallel)  # an impossible split is refused whatever is counted
    parts = (
        _copies(model, group, tensor_parallel) * _entry_bytes(model, group, kv_dtype) / group.tokens_per_entry
        for group in groups
    )
    return sum(parts, Fraction(0))


def _copies(model: Model, group: LayerGroup, tensor_parallel: int) -> int:
    """How often the ranks hold what one rank alone would hold once. Raises UsageError."""
    if not 1 <= tensor_parallel <= MOST_RANKS:
        raise UsageError(
            f"{tensor_parallel} ranks cannot hold a model; name 1 or more, up to {MOST_RANKS:,}."
        )
    heads = group.heads
    if not heads:
        return tensor_parallel
    if heads % tensor_parallel == 0:
        return 1
    if group.kind == "heads" and tensor_parallel % heads == 0:
        return tensor_parallel // heads
    what = "KV heads" if group.kind == "heads" else "heads of the state"
    raise UsageError(
        f"{model.name}: {heads} {what} cannot be split over {tensor_parallel} ranks; "
        "name a divisor or a multiple of the KV heads."
    )


def _entry_bytes(model: Model, group: LayerGroup, kv_dtype: str | None) -> Fraction:
    """Bytes of one entry in all layers of a group that keeps tokens, one copy."""
    return group.layers * group.entry_elements * element_bytes(group.dtype or kv_dtype or model.dtype)


def _state_bytes(group: LayerGroup) -> Fraction:
    """Bytes of the state in all layers of a group, one copy."""
    recurrent = group.recurrent_elements * element_bytes(group.recurrent_dtype)
    return group.layers * (recurrent + group.conv_elements * element_bytes(group.conv_dtype))
