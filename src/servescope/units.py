"""Units of time at the edge: text or numbers of a source to whole nanoseconds.

Everything is held in integers: seven-digit fractions and epoch milliseconds survive exactly.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from math import floor

import numpy as np
import numpy.typing as npt

from servescope.errors import unknown_name

NS_PER: dict[str, int] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NS_PER_US = 1_000
LONGEST_S = 2**62 // 1_000_000  # microseconds of two such times still add up in an int64
MOST_DAYS = LONGEST_S // 86_400
_CALENDAR = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?\s*(Z|UTC|[+-]\d\d:?\d\d|[+-]\d\d)?",
    re.ASCII,
)


def ns_per(unit: str) -> int:
    """Nanoseconds in one `unit` (s, ms, us, ns). Raises UsageError for another text."""
    if unit not in NS_PER:
        raise unknown_name("time unit", unit, NS_PER)
    return NS_PER[unit]


def number_to_ns(text: str, unit: str) -> int:
    """Nanoseconds in a decimal number written as text, exact, half a nanosecond rounds up.

    The result is a Python integer of any size: epoch seconds read in the wrong unit lie
    beyond 64 bits of nanoseconds and must still be shown to the user as what they are.

    Raises ValueError with a reason where the text is no finite number below 1e30.

    >>> number_to_ns("0.25", "s")
    250000000
    """
    try:
        if not text.isascii() or "_" in text:  # Decimal takes 1_000 and digits of other scripts
            raise InvalidOperation
        value = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not value.is_finite():
        raise ValueError("not a finite number")
    if value.adjusted() > 30:
        raise ValueError("too large for a time")
    return floor(value * ns_per(unit) + Decimal("0.5"))


def floats_to_ns(
    values: npt.NDArray[np.float64], unit: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Nanoseconds of float64[n] times in `unit`, and bool[n]: the value fits and is finite.

    A double holds 15 digits: epoch seconds are good to 0.24 µs, relative times to below 1 ns.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * float(ns_per(unit))
        good = np.isfinite(scaled) & (np.abs(scaled) < 9.2e18)
        whole = np.floor(np.where(good, scaled, 0.0) + 0.5).astype(np.int64)
    return whole, good


def calendar_to_ns(text: str) -> tuple[int, bool]:
    """Nanoseconds since 1970 UTC of a calendar time, and whether the text named a zone.

    Takes `YYYY-MM-DD HH:MM:SS`, a `T` or a blank between, up to nine fraction digits (further
    ones are cut), `Z` or an offset. Without a zone the text is read as UTC; the caller notes it.

    Raises ValueError with a reason.

    >>> calendar_to_ns("1970-01-01 00:00:00.0000009")
    (900, False)
    """
    match = _CALENDAR.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a calendar time (YYYY-MM-DD HH:MM:SS, fraction and zone optional)")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"not a calendar time ({error})") from None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    fraction = (match[7] or "").ljust(9, "0")
    zone = match[8]
    if zone and zone not in ("Z", "UTC"):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        if int(digits[:2]) > 23 or int(digits[2:]) > 59:
            raise ValueError("not a calendar time (zone offset out of range)")
        offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return seconds * 1_000_000_000 + int(fraction), zone is not None


def ns_to_us(ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Whole microseconds of int64[n] nanoseconds, half rounds up (never cut)."""
    return np.floor_divide(ns, NS_PER_US) + (np.mod(ns, NS_PER_US) >= NS_PER_US // 2)


def iso_utc(ns: int) -> str:
    """Calendar text of nanoseconds since 1970, UTC, with nine fraction digits.

    >>> iso_utc(900)
    '1970-01-01T00:00:00.000000900Z'
    """
    seconds, rest = divmod(ns, 1_000_000_000)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{year_of(ns)}-…"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def year_of(ns: int) -> int:
    """Calendar year of nanoseconds since 1970, also far outside the range of `datetime`."""
    seconds = ns // 1_000_000_000
    if abs(seconds) >= 2**62:
        return 1970 + seconds // 31_556_952  # the mean year; a calendar means nothing there
    return int(np.datetime64(int(seconds), "s").astype("datetime64[Y]").astype(int)) + 1970
