"""Sizes of caches as people write them: shares, tokens, blocks or bytes, never a bare number.

A text is parsed without a trace, so that a wrong one fails before a long read; `resolve` turns it into the
tokens and blocks of one trace. What does not fit a whole block or token is rounded down, with a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from servescope.errors import UsageError, shorten
from servescope.kv.sizes import BYTE_UNITS, NUMBER, byte_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Kind = Literal["share", "tokens", "blocks", "bytes"]
Unit = Literal["session", "block"]
LIMIT = 2**63  # sizes and counts of tokens are int64 in every kernel
OPTION = "--capacity"
HOST_OPTION = "--host-capacity"
_WRITE = "Write a share (10%), tokens (4096tokens), blocks (8blocks) or bytes (64GiB, 64GB)."
_NUMBER = re.compile(NUMBER)
_SHARE = re.compile(rf"({NUMBER}) ?%")
_COUNT = re.compile(r"([0-9]{1,20}) ?(token|block)s?")


@dataclass(frozen=True)
class Capacity:
    """One size as it was written.

    kind   what the value counts; a share is of what the trace touches, 1 = all of it
    value  exact
    text   as it was written, and the option it was given to, for messages
    """

    kind: Kind
    value: int | Fraction
    text: str
    option: str = OPTION


@dataclass(frozen=True)
class Size:
    """One size in the units of a trace.

    tokens  tokens the cache holds
    blocks  blocks the cache holds, None for a cache of whole sessions
    bytes   bytes that these tokens take, rounded down; None where the bytes of a token are not known
    texts   the texts that mean this size, in the order given
    """

    tokens: int
    blocks: int | None
    bytes: int | None
    texts: tuple[str, ...]


def parse_capacity(text: str, option: str = OPTION) -> Capacity:
    """The size that `text` says. Raises UsageError, which quotes the text, for anything else.

    Decimals are taken in shares and bytes, where they mean something; tokens and blocks are whole.

    >>> parse_capacity("2GiB").value
    Fraction(2147483648, 1)
    """
    bare = text.strip()
    if match := _SHARE.fullmatch(bare):
        return _limited(Capacity("share", Fraction(match[1]) / 100, bare, option))
    if match := _COUNT.fullmatch(bare):
        kind: Kind = "tokens" if match[2] == "token" else "blocks"
        return _limited(Capacity(kind, int(match[1]), bare, option))
    if (size := byte_size(bare)) is not None:
        return _limited(Capacity("bytes", size, bare, option))
    reason = _reason(bare)
    raise UsageError(f"{option} {shorten(text)} {reason}{'' if reason.endswith('?') else '.'} {_WRITE}")


def parse_capacities(texts: str | Iterable[str], option: str = OPTION) -> list[Capacity]:
    """The sizes of a comma list, or of several. Raises UsageError for an empty place in a list too.

    >>> [size.text for size in parse_capacities("10%,8blocks")]
    ['10%', '8blocks']
    """
    lists = [texts] if isinstance(texts, str) else list(texts)
    return [parse_capacity(part, option) for text in lists for part in text.split(",")]


def resolve(
    capacities: Sequence[Capacity],
    *,
    unit: Unit,
    whole: int,
    block_tokens: int | None = None,
    bytes_per_token: int | Fraction | None = None,
) -> tuple[list[Size], list[str]]:
    """The sizes in the units of a trace, each once, in the order given; and notes for the reader.

    unit             "block": sizes are whole blocks; "session": whole tokens
    whole            what a share is of: distinct blocks touched, or tokens of the working set
    block_tokens     tokens of a block; needed for unit "block", and for a text in blocks
    bytes_per_token  needed for a text in bytes (`servescope.kv.catalogue.capacity_rate`)

    Raises UsageError where a text needs what is missing, and for a size of 2^63 tokens or more.
    """
    if unit == "block" and block_tokens is None:
        raise UsageError("a cache of blocks needs the tokens of a block; give --block-tokens N.")
    if bytes_per_token is not None and bytes_per_token <= 0:
        raise UsageError(f"--bytes-per-token {bytes_per_token} is no size; give a number above 0.")
    grain = 1 if unit == "session" or block_tokens is None else block_tokens
    name = "tokens" if unit == "session" else "blocks"
    notes: list[str] = []
    texts: dict[int, list[str]] = {}
    for capacity in capacities:
        exact = _in_unit(capacity, grain, whole, block_tokens, bytes_per_token)
        count = int(exact)  # nothing is negative: this rounds down
        if count * grain >= LIMIT:
            raise UsageError(
                f'{capacity.option} "{capacity.text}" is {count:,} {name}, more than can be counted; '
                "give less."
            )
        if bytes_per_token is not None and count * grain * bytes_per_token >= LIMIT:
            raise UsageError(
                f'{capacity.option} "{capacity.text}" is more bytes than can be counted, at '
                f"{bytes_per_token} bytes a token; give less."
            )
        notes += _notes(capacity, exact, count, grain, whole, name, bytes_per_token)
        texts.setdefault(count, []).append(capacity.text)
    for count, said in texts.items():
        if len(said) > 1:
            notes.append(f"{' and '.join(said)} mean the same size, {count:,} {name}: one row")
    return [_size(count, grain, unit, bytes_per_token, said) for count, said in texts.items()], notes


def _in_unit(
    capacity: Capacity,
    grain: int,
    whole: int,
    block_tokens: int | None,
    bytes_per_token: int | Fraction | None,
) -> Fraction:
    """The size in blocks (or tokens of a cache of sessions), exact. Raises UsageError for what is missing."""
    if capacity.kind == "share":
        return Fraction(capacity.value) * whole
    if capacity.kind == "tokens":
        return Fraction(capacity.value) / grain
    if capacity.kind == "blocks":
        if block_tokens is None:
            raise UsageError(
                f'{capacity.option} "{capacity.text}" counts blocks, but the trace does not say how many '
                "tokens a block has: give --block-tokens N, or write tokens."
            )
        return Fraction(capacity.value * block_tokens, grain)
    if bytes_per_token is None:
        raise UsageError(
            f'{capacity.option} "{capacity.text}" is in bytes, but the bytes of a token are not known: name '
            "the model with --kv-model NAME (`servescope kv` lists them), or give --bytes-per-token N."
        )
    return Fraction(capacity.value) / bytes_per_token / grain


def _notes(
    capacity: Capacity,
    exact: Fraction,
    count: int,
    grain: int,
    whole: int,
    name: str,
    bytes_per_token: int | Fraction | None,
) -> list[str]:
    """What rounding leaves over, and whether the size is beyond all that the trace touches."""
    notes = []
    left = (exact - count) * grain  # tokens, exact
    if left and capacity.kind == "tokens":
        over = f"{int(left)} {'token' if left == 1 else 'tokens'} left over"
        notes.append(f"{capacity.text} is {count:,} {name}, {over}")
    elif left and capacity.kind == "bytes" and bytes_per_token is not None:
        rest = int(left * bytes_per_token)
        notes.append(f"{capacity.text} is {count:,} {name}, rounded down ({rest:,} bytes left over)")
    elif exact and not count:
        notes.append(f"{capacity.text} rounds down to 0 {name}: no cache")
    if count > whole:
        notes.append(
            f"{capacity.text} is larger than everything touched: {count:,} {name}, the trace has {whole:,}"
        )
    return notes


def _size(
    count: int, grain: int, unit: Unit, bytes_per_token: int | Fraction | None, texts: Sequence[str]
) -> Size:
    tokens = count * grain
    taken = None if bytes_per_token is None else int(tokens * bytes_per_token)
    return Size(tokens, count if unit == "block" else None, taken, tuple(texts))


def _limited(capacity: Capacity) -> Capacity:
    """The capacity, unless no computer counts so far."""
    if capacity.value >= LIMIT:
        raise UsageError(f"{capacity.option} {shorten(capacity.text)} is too large; stay below 2^63.")
    return capacity


def _reason(text: str) -> str:
    """Why a text is no size."""
    if not text:
        return "is empty"
    if _NUMBER.fullmatch(text):
        return "has no unit: say %, tokens, blocks or bytes"
    if text.startswith("-"):
        return "is negative"
    if re.fullmatch(rf"{NUMBER} ?(token|block)s?", text):
        return "is not whole: tokens and blocks cannot be split"
    if (unit := re.fullmatch(rf"{NUMBER} ?([A-Za-z]+)", text)) and unit[1].lower() in _LOWER_UNITS:
        return f"has the unknown unit {unit[1]}; did you mean {_LOWER_UNITS[unit[1].lower()]}?"
    if re.fullmatch(r"[0-9.]{20,} ?[A-Za-z%]*", text):
        return "has too many digits"
    return "is no size"


_LOWER_UNITS = {unit.lower(): unit for unit in BYTE_UNITS}
