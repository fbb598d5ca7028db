"""The published rule as one pass over records in time order: which request continues which.

For every (user, model) the last K requests are held in a ring. A request continues the one of its endpoint
that nobody has continued, whose input + output is below its own input and largest, the oldest on ties:
chains, no branches. Source: "A Year in LLM Serving" (arXiv 2608.13573).

A ring is a run of `scores` (length and endpoint in one number, all that the search looks at) and the same
run of `entries` (the rest, looked at for the one that is chosen). It begins with one place and doubles up
to K, so that memory goes with what is used: most pairs have few requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.sessions.eligible import END, ENDPOINT_BITS, FOREVER, PAIR, ROW, START, TOKENS

Ints = npt.NDArray[np.int64]

# columns of a link, what the rule finds for a record
REQUEST, SESSION, PARENT, PREFIX, TURN, CANDIDATES, TIED, PAUSE = range(8)
LINK_FIELDS = 8
# columns of an entry
OWN_ROW, OWN_SESSION, OWN_TURN, BEGAN, ENDED = range(5)
ENTRY_FIELDS = 5
# columns of a pair, a row of an open-addressing table: its key, where its ring begins, the ring's places (0:
# the row is free), those in use, the next one
KEY, FIRST, ROOM, USED, NEXT = range(5)
PAIR_FIELDS = 5
ENDPOINT_MASK = (1 << ENDPOINT_BITS) - 1
CONTINUED = FOREVER  # the score of a request that has a child: longer than any prompt
SMALLEST = 1 << 10
MICROSECONDS = 1_000_000


class Limits(NamedTuple):
    """How far a parent may be away.

    look_back    last requests of a user and model among which it is sought
    completed    it must have ended
    max_gap_us   from its start
    unique       no other may fit equally well
    """

    look_back: int
    completed: bool
    max_gap_us: int
    unique: bool


def limits(look_back: int, completed: bool, max_gap_s: float | None, unique: bool) -> Limits:
    """Limits with a gap in seconds; None for any."""
    gap = FOREVER if max_gap_s is None else min(round(max_gap_s * MICROSECONDS), FOREVER)
    return Limits(look_back, completed, gap, unique)


class Held(NamedTuple):
    """What is known of the pairs so far, as arrays.

    pairs    int64[a power of two, PAIR_FIELDS], at most two thirds of the rows taken
    scores   int64[m], input + output and, in the lowest bits, the endpoint; or CONTINUED
    entries  int64[m, ENTRY_FIELDS]
    used     int64[2], rows of pairs and of entries that are taken
    """

    pairs: Ints
    scores: Ints
    entries: Ints
    used: Ints


@kernel
def _search(
    scores: Ints, entries: Ints, low: int, high: int, wanted: int, start: int, limits: Limits
) -> tuple[int, int, int]:
    """Search the places `low` up to before `high` for a parent.

    wanted  score of a request of the endpoint whose input + output is the child's input

    Returns the first place with the longest that fits (-1: none), how many fit, how many equally well.
    """
    best: Any = -1
    fitting: Any = 0
    tied: Any = 0
    most = np.int64(-FOREVER)
    near = not limits.completed and limits.max_gap_us == FOREVER
    for at in range(low, high):
        score = scores[at]
        # no branches: which lengths are below another cannot be foretold
        fits = (score < wanted) & (((score ^ wanted) & ENDPOINT_MASK) == 0)
        if not near:
            ended = entries[at, ENDED]
            late = limits.completed & ((ended == schema.NULL_INT64) | (ended > start))
            fits = fits & ~(late | (start - entries[at, BEGAN] > limits.max_gap_us))
        more = fits & (score > most)
        tied = 1 if more else tied + np.int64(fits & (score == most))
        best = at if more else best
        most = score if more else most
        fitting += np.int64(fits)
    return best, fitting, tied


@kernel
def _widen(pairs: Ints, pair: np.int64, scores: Ints, entries: Ints, used: Ints, look_back: int) -> None:
    """Move a full ring, that has never gone round, to one of twice the places, `look_back` at most."""
    before, first, room = pairs[pair, FIRST], used[1], pairs[pair, ROOM]
    pairs[pair, FIRST] = first
    pairs[pair, ROOM] = min(max(1, 2 * room), look_back)
    pairs[pair, NEXT] = room
    used[1] += pairs[pair, ROOM]
    for k in range(room):
        scores[first + k] = scores[before + k]
        for column in range(ENTRY_FIELDS):
            entries[first + k, column] = entries[before + k, column]


@kernel
def _pair_of(pairs: Ints, key: int) -> np.int64:
    """Row of a user and model in `pairs`, or the free one where they belong."""
    mask = np.uint64(len(pairs) - 1)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    row = (mixed >> np.uint64(24)) & mask
    while pairs[row, ROOM] != 0 and pairs[row, KEY] != key:
        row = (row + np.uint64(1)) & mask
    return np.int64(row)


@kernel
def _refill(old: Ints, pairs: Ints) -> None:
    """Copy all pairs into an empty table, modified."""
    for row in range(len(old)):
        if old[row, ROOM]:
            to = _pair_of(pairs, old[row, KEY])
            for column in range(PAIR_FIELDS):
                pairs[to, column] = old[row, column]


@kernel
def _follow(records: Ints, row: int, links: Ints, held: Held, limits: Limits) -> int:
    """Link records from `row` on until something is full: the row reached.

    records  int64[n, FIELDS], in time order, not modified
    links    int64[n, LINK_FIELDS], filled
    held     modified
    """
    pairs, scores, entries, used = held
    while row < len(records):
        if 3 * (used[0] + 1) > 2 * len(pairs) or used[1] + limits.look_back > len(entries):
            return row
        pair = _pair_of(pairs, records[row, PAIR])
        if pairs[pair, ROOM] == 0:
            pairs[pair, KEY] = records[row, PAIR]
            used[0] += 1
        key, start, tokens = records[row, ROW], records[row, START], records[row, TOKENS] >> 32
        endpoint, request = key & ENDPOINT_MASK, key >> ENDPOINT_BITS
        first, filled = pairs[pair, FIRST], pairs[pair, USED]
        wanted = tokens << ENDPOINT_BITS | endpoint
        best, fitting, tied = _search(scores, entries, first, first + filled, wanted, start, limits)
        if tied > 1:  # the ring may have gone round: those from NEXT on are older
            again, _, _ = _search(
                scores, entries, first + pairs[pair, NEXT], first + filled, wanted, start, limits
            )
            if again >= 0 and scores[again] == scores[best]:
                best = again
        session, turn = request, np.int64(1)
        parent, prefix, pause = np.int64(-1), np.int64(0), np.int64(schema.NULL_INT64)
        if best >= 0 and not (limits.unique and tied > 1):
            session, turn = entries[best, OWN_SESSION], entries[best, OWN_TURN] + 1
            parent, prefix = entries[best, OWN_ROW], scores[best] >> ENDPOINT_BITS
            if entries[best, ENDED] != schema.NULL_INT64:
                pause = start - entries[best, ENDED]
            scores[best] = CONTINUED
        links[row, REQUEST], links[row, SESSION], links[row, PARENT] = request, session, parent
        links[row, PREFIX], links[row, TURN], links[row, PAUSE] = prefix, turn, pause
        links[row, CANDIDATES], links[row, TIED] = fitting, tied
        if filled == pairs[pair, ROOM] and filled < limits.look_back:
            _widen(pairs, pair, scores, entries, used, limits.look_back)
        place = pairs[pair, NEXT]
        at = pairs[pair, FIRST] + place
        total = tokens + np.int64(np.int32(records[row, TOKENS] & 0xFFFFFFFF))
        scores[at] = total << ENDPOINT_BITS | endpoint
        entries[at, OWN_ROW], entries[at, OWN_SESSION], entries[at, OWN_TURN] = request, session, turn
        entries[at, BEGAN], entries[at, ENDED] = start, records[row, END]
        pairs[pair, USED] = max(filled, place + 1)
        pairs[pair, NEXT] = place + 1 if place + 1 < limits.look_back else 0
        row += 1
    return row


def _longer(rows: Ints, least: int) -> Ints:
    """The same rows in an array of at least `least` and of twice the length."""
    wider = np.empty((max(2 * len(rows), least), *rows.shape[1:]), np.int64)
    wider[: len(rows)] = rows
    return wider


@dataclass
class Chains:
    """Chains of the requests of some users and models so far. Changed by `follow`.

    limits  how far a parent may be away
    held    what is known so far
    """

    limits: Limits
    held: Held = field(init=False)

    def __post_init__(self) -> None:
        room = SMALLEST + self.limits.look_back
        scores, entries = np.empty(room, np.int64), np.empty((room, ENTRY_FIELDS), np.int64)
        self.held = Held(np.zeros((SMALLEST, PAIR_FIELDS), np.int64), scores, entries, np.zeros(2, np.int64))

    def follow(self, records: Ints, links: Ints | None = None) -> Ints:
        """Link the next records: int64[n, LINK_FIELDS].

        records  int64[n, FIELDS], in time order, after all earlier ones; not modified
        links    where to put them, at least n rows, modified; fresh memory costs as much as the rule

        Slow twin: tests/reference/reconstruction.py.
        """
        if links is None:
            links = np.empty((len(records), LINK_FIELDS), np.int64)
        links = links[: len(records)]
        row = _follow(records, 0, links, self.held, self.limits)
        while row < len(records):
            self._grow()
            row = _follow(records, row, links, self.held, self.limits)
        return links

    def _grow(self) -> None:
        held = self.held
        if 3 * (held.used[0] + 1) > 2 * len(held.pairs):
            pairs = np.zeros((2 * len(held.pairs), PAIR_FIELDS), np.int64)
            _refill(held.pairs, pairs)
            held = held._replace(pairs=pairs)
        least = int(held.used[1]) + self.limits.look_back
        if least > len(held.entries):
            held = held._replace(scores=_longer(held.scores, least), entries=_longer(held.entries, least))
        self.held = held
