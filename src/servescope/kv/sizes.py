"""Sizes in bytes as people write them: `64GiB` is 64 · 2^30, `64GB` is 64 · 10^9."""

from __future__ import annotations

import re
from fractions import Fraction

from servescope.errors import UsageError, shorten

_PREFIXES = ("k", "M", "G", "T", "P")
BYTE_UNITS: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000 ** (power + 1) for power, prefix in enumerate(_PREFIXES)},
    "KB": 1000,
    **{f"{prefix.upper()}iB": 1024 ** (power + 1) for power, prefix in enumerate(_PREFIXES)},
}
NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
_SIZE = re.compile(rf"({NUMBER}) ?([A-Za-z]+)")
_RATE = re.compile(rf"({NUMBER}) ?([A-Za-z]+)/s")


def byte_size(text: str) -> Fraction | None:
    """Bytes of a number with a unit of `BYTE_UNITS`, exact; None where the text is none.

    >>> byte_size("1.5KiB")
    Fraction(1536, 1)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in BYTE_UNITS:
        return None
    return Fraction(match[1]) * BYTE_UNITS[match[2]]


def bandwidth(text: str) -> Fraction:
    """Bytes per second of a text such as `10GB/s`, exact. Raises UsageError for anything else, and for 0.

    >>> bandwidth("10GB/s")
    Fraction(10000000000, 1)
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or match[2] not in BYTE_UNITS or not Fraction(match[1]):
        raise UsageError(
            f"{shorten(text)} is no bandwidth; write bytes per second above 0, such as 10GB/s or 900MiB/s "
            "(bits have no unit here: 400 Gbit/s is 50GB/s)."
        )
    return Fraction(match[1]) * BYTE_UNITS[match[2]]


def written(count: int | float | Fraction) -> str:
    """Bytes as a short text in binary units, for sentences.

    >>> written(2_684_354_560)
    '2.5 GiB'
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = 0
    while power + 1 < len(units) and count >= 1024 ** (power + 1):
        power += 1
    return f"{float(count) / 1024**power:.4g} {units[power]}"
