"""Token usage as the interfaces report it, and whether its input holds the cached tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from servescope import schema
from servescope.errors import UsageError
from servescope.formats.columns import counts
from servescope.formats.logs import known, note_cached, unknown_zeros

if TYPE_CHECKING:
    import numpy.typing as npt

    from servescope.formats.columns import Caster
    from servescope.formats.format import Context

INPUT_KEYS = ("prompt_tokens", "input_tokens")
OUTPUT_KEYS = ("completion_tokens", "output_tokens")
ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(frozen=True)
class Usage:
    """The counts of one request as they stand in the log, of any type, None where absent.

    values    name in the log -> value, for the input and output counts
    cached    input tokens read from a prefix cache
    created   input tokens written to one
    includes  whether the input count holds those two: fixed by the shape; None: not fixed
    shape     the specification that fixes it
    """

    values: dict[str, Any]
    cached: Any = None
    created: Any = None
    includes: bool | None = True
    shape: str = ""


NO_USAGE = Usage({})


def is_usage(value: Any) -> bool:
    """Whether the value looks like a usage object."""
    return isinstance(value, dict) and any(key in value for key in INPUT_KEYS + OUTPUT_KEYS)


def usage_of(found: Any) -> Usage:
    """The counts of a usage object.

    OpenAI's interfaces (prompt_tokens_details, input_tokens_details) and DeepSeek's
    (prompt_cache_hit_tokens) count cached tokens in the input, Anthropic's (input_tokens beside
    cache_read_input_tokens) does not. A mixture of these names fixes nothing.
    """
    if not isinstance(found, dict):
        return NO_USAGE
    values = {key: found.get(key) for key in INPUT_KEYS + OUTPUT_KEYS if found.get(key) is not None}
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = found.get(name)
        if isinstance(details, dict):
            return Usage(values, details.get("cached_tokens"), None, True, f"OpenAI's {name}")
    if found.get("prompt_cache_hit_tokens") is not None:
        return Usage(values, found["prompt_cache_hit_tokens"], None, True, "DeepSeek's usage")
    read, created = (found.get(key) for key in ANTHROPIC)
    if read is None and created is None:
        cached = found.get("cached_tokens")
        return Usage(values, cached, None, None if cached else True)
    if "input_tokens" in values and "prompt_tokens" not in values:
        return Usage(values, read, created, False, "Anthropic's usage")
    return Usage(values, read, created, None if read or created else True)


def usage_columns(context: Context, caster: Caster, found: list[Usage]) -> dict[str, npt.NDArray[np.int32]]:
    """`input_tokens` (cached ones included), `output_tokens`, `cached_tokens` of the rows.

    Records what decided about cached tokens. Raises UsageError where nothing decides: the shape
    does not fix it, and it is not declared.
    """
    inputs = _first(caster, INPUT_KEYS, found)
    outputs = _first(caster, OUTPUT_KEYS, found)
    cached = counts(caster, "usage cached tokens", [usage.cached for usage in found])
    created = counts(caster, "usage.cache_creation_input_tokens", [usage.created for usage in found])
    excluded = ~np.array([_includes(context, caster, usage) for usage in found], np.bool_)
    inputs = np.where(
        excluded & (inputs != schema.NULL_INT32), inputs + known(cached) + known(created), inputs
    ).astype(np.int32)
    inputs, outputs = unknown_zeros(context, caster, inputs, outputs)
    note_cached(context, caster, inputs, cached)
    return {"input_tokens": inputs, "output_tokens": outputs, "cached_tokens": cached}


def _first(caster: Caster, keys: tuple[str, ...], found: list[Usage]) -> npt.NDArray[np.int32]:
    """The count under the first of `keys` that a row has."""
    out = np.full(len(found), schema.NULL_INT32, np.int32)
    for key in keys:
        column = counts(caster, f"usage.{key}", [usage.values.get(key) for usage in found])
        out = np.where(out == schema.NULL_INT32, column, out)
    return out


def _includes(context: Context, caster: Caster, usage: Usage) -> bool:
    declared = context.options.input_includes_cached
    if declared is not None:
        context.decide(f"input counts {'include' if declared else 'exclude'} cached tokens (declared)")
        return declared
    if usage.includes is None:
        raise UsageError(
            f"{caster.source.name}: cached tokens are logged, but it is not certain whether the input counts "
            "include them. Declare it: --input-includes-cached or --input-excludes-cached."
        )
    if usage.shape:
        word = "includes" if usage.includes else "excludes"
        context.decide(f"the input count {word} cached tokens (by the specification of {usage.shape})")
    return usage.includes
