"""How many requests of a trace only fill the cache."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from servescope.errors import UsageError


def warm_requests(fraction: float, requests: int) -> int:
    """⌊fraction · requests⌋ of the fraction as it is written. Raises UsageError outside 0 to below 1.

    >>> warm_requests(0.29, 100)
    29
    """
    if not 0 <= fraction < 1:
        raise UsageError(
            f"--warmup is {fraction}; give the part of the requests that only fills the cache, "
            "from 0 to below 1."
        )
    return floor(Fraction(repr(fraction)) * requests)
