"""Which request continues which: the contract of every rule, and the one place that picks a rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError, unknown_name
from servescope.units import MOST_DAYS

if TYPE_CHECKING:
    from servescope.trace import Trace

RULES = ("paper", "stated", "blocks")
LOOK_BACK = 10  # of the study (docs/sessions.md)
MOST_LOOK_BACK = 1_000_000
NO_PARENT = -1
EXCLUDED = -1
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class SessionOptions:
    """How sessions are found, and in which requests.

    rule              name in `RULES`; None: stated sessions where the trace states them, else "paper"
    look_back         last requests of a user and model among which a parent is sought, at least 1
    parent_completed  a parent must have ended when its child starts; one without a known end is none
    max_gap_s         longest time from a parent's start to its child's start, seconds; None: any
    unique            no link where two candidates fit equally well
    model             only requests of this model; None: all, each model apart
    window_days       only requests that start in it: days of the trace clock, half-open; None: all

    look_back to unique belong to the rule "paper".
    """

    rule: str | None = None
    look_back: int = LOOK_BACK
    parent_completed: bool = False
    max_gap_s: float | None = None
    unique: bool = False
    model: str | None = None
    window_days: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for an unknown rule or a value out of range."""
        if self.rule is not None and self.rule not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        if not 1 <= self.look_back <= MOST_LOOK_BACK:
            raise UsageError(
                f"--look-back is {self.look_back}; a parent is sought among 1 to {MOST_LOOK_BACK:,} requests."
            )
        if self.max_gap_s is not None and not 0 <= self.max_gap_s < math.inf:
            raise UsageError(f"--max-gap is {self.max_gap_s:g}; give seconds, 0 or more, or leave it out.")
        if (
            self.window_days is not None
            and not -MOST_DAYS < self.window_days[0] < self.window_days[1] < MOST_DAYS
        ):
            first, last = self.window_days
            raise UsageError(
                f"--window {first:g}:{last:g} holds no time or has no end; FROM must be below TO."
            )


def window_us(trace: Trace, window_days: tuple[float, float]) -> tuple[int, int]:
    """First arrival inside a window, first one after it: microseconds since the first request."""
    low, high = (round(day * DAY_US) for day in window_days)
    return low - trace.meta.origin.clock_us, high - trace.meta.origin.clock_us


@dataclass(frozen=True)
class Links:
    """Sessions of all rows of a trace, in `request_id` order. Arrays must not be modified.

    session        int64[rows], `request_id` of the session's first request; -1 where the row takes no part
    parent         int64[rows], `request_id` of the request that it continues; -1 for none
    turn           int32[rows], from 1; 0 where the row takes no part
    prefix_tokens  int64[rows], input + output of the parent; 0 on first turns, and where a stated parent
                   lacks a count
    candidates     int32[rows], how many requests fitted as parent (a stated parent counts as one)
    rule           name in `RULES`
    """

    session: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int32]
    prefix_tokens: npt.NDArray[np.int64]
    candidates: npt.NDArray[np.int32]
    rule: str


def empty_links(rows: int, rule: str) -> Links:
    """Links in which no row takes part, whose arrays the caller fills."""
    return Links(
        np.full(rows, EXCLUDED, np.int64),
        np.full(rows, NO_PARENT, np.int64),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int32),
        rule,
    )


def rule_of(trace: Trace, options: SessionOptions) -> str:
    """The rule that is meant: stated sessions where there are any, unless another is asked for."""
    return options.rule or ("stated" if trace.has("session_id") else "paper")


def session_links(
    trace: Trace,
    options: SessionOptions = SessionOptions(),
    *,
    threads: int | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Links:
    """Sessions of a trace whose rows fit in memory (about 32 bytes a row, 72 while it is made).

    threads  of the rule, None = one a core
    engine   "local" or "ray"; address: of a running Ray cluster

    Raises UsageError where the trace lacks what the rule needs, or for a model that is not in it.
    """
    rule = rule_of(trace, options)
    if rule == "stated":
        from servescope.sessions.held import stated_links

        return stated_links(trace, options)
    if rule == "blocks":
        from servescope.sessions.block_rule import block_links

        return block_links(trace, options)
    from servescope.sessions.reconstruct import paper_links

    return paper_links(trace, options, threads=threads, engine=engine, address=address)
