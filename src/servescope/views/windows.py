"""Windows of the trace clock: half open, given in days, or the last days of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servescope.errors import UsageError
from servescope.units import MOST_DAYS
from servescope.views.clock import DAY_US

if TYPE_CHECKING:
    from servescope.views.sketch import Context

Window = tuple[int, int]


def window_us(context: Context, days: tuple[float, float] | None, last_days: float, option: str) -> Window:
    """First arrival inside and first one after a window, microseconds since the first request.

    days       first day and day after the last, on the trace clock as in the column `day`, fractions too
    last_days  without `days`: so many days that end with the last request, which is inside
    option     name of the option, for the message

    Raises UsageError for a window that is empty or endless.
    """
    if days is None:
        end = context.last_us + 1
        return end - round(last_days * DAY_US), end
    first, last = days
    if not -MOST_DAYS < first < last < MOST_DAYS:
        raise UsageError(f"{option}: a window needs a first day below its last one, not {first:g}:{last:g}.")
    clock_us = context.meta.origin.clock_us
    return round(first * DAY_US) - clock_us, round(last * DAY_US) - clock_us
