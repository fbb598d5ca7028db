"""Result tables of sessions: the summary, turns, what a turn adds, pauses, how sure links are, limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.histogram import EDGES
from servescope.sessions.tally import (
    BIN_BITS,
    INPUT_TOKENS,
    KNOWN,
    LINKED,
    NEGATIVE,
    PREFIX_TOKENS,
    SIGN_BITS,
    UNDECIDED,
    UNKNOWN,
)
from servescope.tables import ratio, stacked, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servescope.result import Table
    from servescope.sessions.tally import Tally
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
I64, F64 = pa.int64(), pa.float64()
DOMINANT = 0.2  # share of requests above which one user's links decide the numbers

SUMMARY = (
    "Sessions of the requests that take part. A turn count includes the first request; quantiles of turns "
    "are exact, linear interpolation. linked_turns: requests that continue another. prefix_tokens: input + "
    "output of their parents, at most their own input; prefix_fraction: that / input_tokens."
)
ROWS = (
    "Requests read = those that take part (eligible) + those left out, by the first condition that they fail."
)
TURNS = "Sessions by number of requests."
GROWTH = (
    "Linked turns by turn and by what they add: input - parent's input - parent's output, tokens. Bins below "
    "0: the history was shortened; without edges: a count is not known."
)
PAUSE = (
    "Linked turns by think time: seconds from the end of the parent to the start of the turn. Bins below 0: "
    "the turn began before its parent ended; without edges: the parent's end is not known."
)
AMBIGUITY = (
    "Linked turns by how many requests fitted as their parent; tied_turns: the best fit was shared, and the "
    "oldest was taken."
)
LIMITS = "What these sessions do not let anyone conclude."


@dataclass(frozen=True)
class Found:
    """Sessions of a trace, counted.

    rule      name of the rule
    tally     of their links
    lengths   numbers of turns and sessions that have so many, int64[n] both
    excluded  rule -> requests left out, in the order of the conditions
    heaviest  requests of the user with the most, among those that take part; 0 without users
    """

    rule: str
    tally: Tally
    lengths: tuple[Ints, Ints]
    excluded: Mapping[str, int]
    heaviest: int = 0


def quantile(values: Ints, counts: Ints, q: float) -> float | None:
    """Exact quantile q (0 … 1) of values that occur `counts` times, linear interpolation; None of nothing.

    values  int64[n], ascending
    """
    if not len(values):
        return None
    upto = np.cumsum(counts)
    place = (int(upto[-1]) - 1) * q
    low, high = (
        int(values[np.searchsorted(upto, k, side="right")]) for k in (math.floor(place), math.ceil(place))
    )
    return low + (high - low) * (place - math.floor(place))


def tables(found: Found, trace: Trace) -> list[Table]:
    """Tables: summary, session_rows, limits, session_turns, link_ambiguity, think_time, prompt_growth."""
    turns, sessions = found.lengths
    return [
        _summary(found, trace),
        _rows(found),
        _limits(found, trace),
        table("session_turns", {"turns": (I64, turns), "sessions": (I64, sessions)}, TURNS),
        _ambiguity(found.tally),
        _pauses(found.tally),
        _growth(found.tally),
    ]


def notes(found: Found, trace: Trace) -> list[str]:
    """Sentences for the reader."""
    lacking = [name for name in ("user", "model", "endpoint", "instance") if not trace.has(name)]
    said = []
    if found.rule == "paper" and lacking:
        said.append(
            f"the source has no {', no '.join(lacking)}: every request passes conditions on such columns, "
            "and requests are not told apart by them"
        )
    overlapping = int(found.tally.pauses[NEGATIVE << BIN_BITS : UNKNOWN << BIN_BITS].sum())
    if overlapping:
        said.append(f"{_many(overlapping, 'turn')} began before the parent ended")
    undecided = int(found.tally.sums[UNDECIDED])
    if undecided:
        said.append(f"{_many(undecided, 'request')} opened a session because two parents fitted equally well")
    return said


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _summary(found: Found, trace: Trace) -> Table:
    turns, sessions = found.lengths
    requests, linked = int(found.tally.turns.sum()), int(found.tally.sums[LINKED])
    many = int(sessions.sum())
    stated = trace.has("input_tokens")
    sums = [int(found.tally.sums[place]) for place in (INPUT_TOKENS, PREFIX_TOKENS)]
    tokens, prefix = sums if stated else (None, None)
    values: dict[str, int | float | None] = {
        "requests": requests,
        "sessions": many,
        "linked_turns": linked,
        "turns_mean": ratio(requests, many),
        "turns_median": quantile(turns, sessions, 0.5),
        "turns_p90": quantile(turns, sessions, 0.9),
        "turns_p99": quantile(turns, sessions, 0.99),
        "turns_max": int(turns[-1]) if many else None,
        "single_turn_fraction": ratio(int(sessions[turns == 1].sum()), many),
        "input_tokens": tokens,
        "prefix_tokens": prefix,
        "prefix_fraction": ratio(prefix, tokens),
    }
    floats = {
        "turns_mean",
        "turns_median",
        "turns_p90",
        "turns_p99",
        "single_turn_fraction",
        "prefix_fraction",
    }
    kinds = {name: F64 if name in floats else I64 for name in values}
    return stacked("summary", kinds, [list(values.values())], SUMMARY)


def _rows(found: Found) -> Table:
    counts = {"eligible": int(found.tally.turns.sum()), **found.excluded}
    rows = [(rule, many) for rule, many in counts.items() if many or rule == "eligible"]
    return stacked("session_rows", {"rule": pa.string(), "requests": I64}, rows, ROWS)


def _edges(sign: Ints, bins: Ints) -> dict[str, tuple[pa.DataType, Any]]:
    """The columns bin_low and bin_high of signed bins."""
    low = np.concatenate([[0.0], EDGES[:-1]])[bins]
    high = np.concatenate([[0.0], EDGES[1:]])[bins]
    below, unknown = sign == NEGATIVE, sign == UNKNOWN
    low, high = np.where(below, -high, low), np.where(below, -low, high)
    return {
        "bin_low": (F64, pa.array(low, mask=unknown)),
        "bin_high": (F64, pa.array(high, mask=unknown)),
    }


def _order(sign: Ints, bins: Ints) -> Ints:
    """What sorts signed bins by value, unknown last."""
    return np.where(sign == KNOWN, bins, np.where(sign == NEGATIVE, -bins, np.int64(1 << BIN_BITS)))


def _growth(tally: Tally) -> Table:
    keys, counts = tally.growth.sorted()
    keys = keys.astype(np.int64)
    turn = keys >> (BIN_BITS + SIGN_BITS)
    sign, bins = keys >> BIN_BITS & ((1 << SIGN_BITS) - 1), keys & ((1 << BIN_BITS) - 1)
    order = np.lexsort((_order(sign, bins), turn))
    columns = {"turn": (I64, turn[order]), **_edges(sign[order], bins[order]), "turns": (I64, counts[order])}
    return table("prompt_growth", columns, GROWTH)


def _pauses(tally: Tally) -> Table:
    used = np.flatnonzero(tally.pauses)
    sign, bins = used >> BIN_BITS, used & ((1 << BIN_BITS) - 1)
    order = np.argsort(_order(sign, bins))
    columns = {**_edges(sign[order], bins[order]), "turns": (I64, tally.pauses[used][order])}
    return table("think_time", columns, PAUSE)


def _ambiguity(tally: Tally) -> Table:
    used = np.flatnonzero(tally.fitting[0])
    turns, tied = tally.fitting[:, used]
    columns = {"candidates": (I64, used), "turns": (I64, turns), "tied_turns": (I64, tied)}
    return table("link_ambiguity", columns, AMBIGUITY)


def _limits(found: Found, trace: Trace) -> Table:
    rows = []
    if found.rule == "paper":
        rows.append(
            (
                "sessions",
                "links are guesses: they may join unrelated requests",
                "the source states no session to check them against"
                if not trace.has("session_id")
                else "they are rebuilt; --against stated measures how well",
            )
        )
        rows += _about_users(found, trace)
    kinds = dict.fromkeys(("view", "limit", "because"), pa.string())
    return stacked("limits", kinds, rows, LIMITS)


def _about_users(found: Found, trace: Trace) -> list[tuple[str, str, str]]:
    if not trace.has("user"):
        because = "no user is stated: all requests of a model are one user's"
        return [("sessions", "conversations of different users are joined", because)]
    rows = []
    requests = int(found.tally.turns.sum())
    if found.heaviest > DOMINANT * requests:
        because = f"one user sent {found.heaviest / requests:.1%} of the requests"
        limit = "links describe one user, and may join unrelated requests"
        rows.append(("sessions", limit, because))
    if trace.meta.format == "chutes":
        because = "the source renames users every three months"
        rows.append(("sessions", "a session that spans a renaming counts as two", because))
    return rows
