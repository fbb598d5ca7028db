"""How far the links of a rule can be trusted: beside sessions that are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.arrays import category_array
from servescope.errors import UsageError, unknown_name
from servescope.sessions.accuracy_counts import (
    Compared,
    Facts,
    bins,
    compare,
    link_counts,
    read_facts,
    session_counts,
)
from servescope.sessions.links import Links, SessionOptions, session_links
from servescope.tables import stacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servescope.result import Table
    from servescope.trace import Part, Trace

Ints = npt.NDArray[np.int64]
TRUTHS = ("stated", "blocks")
SEED = 10
LOOK_BACKS = (1, 2, 5, 10, 20, 50)
I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
SECOND_US = 1_000_000
# left-closed bins; the last one is open
EDGES: dict[str, tuple[int, ...]] = {
    "turn": (1, 2, 3, 4, 5, 9, 17, 33, 65, 129),
    "gap_s": (0, 1, 3, 10, 30, 60, 180, 600, 1_800, 3_600, 86_400),
    "concurrency": (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1_025, 2_049, 4_097),
    "distance": (1, 2, 3, 6, 11, 21, 51, 101, 1_001, 10_001),
}
DEFINED = (
    "Requests that take part in the rule and in the truth. precision = right / links of the rule, recall = "
    "right / true links, reuse tokens = input + output of the parent where the prompt holds them; "
    "reuse_token_error = sum of absolute differences / true, reuse_token_bias = difference of sums / true. "
)
WHOLE = DEFINED + (
    "recall_ceiling: true links that a rule of growing chains can find. purity: requests in the largest true "
    "session of their rebuilt one; completeness: in the largest rebuilt one of their true session; "
    "merges, splits: true sessions a rebuilt one holds too many, and the other way round."
)
BY = DEFINED + (
    "By true turn; by seconds since the true parent's start; by the user's true sessions going on; by the "
    "user's requests since the true parent. low <= value < high, high null: open; both null: no true parent."
)
LOOK_BACK = DEFINED + "One row a look-back."
USERS = DEFINED + "True sessions are dealt at random to so many users; one row for these and a look-back."
COUNTED = ("requests", "links_true", "links_rule", "links_right")
TOKENS = ("input_tokens", "reuse_tokens_true", "reuse_tokens_rule")
LINKS: dict[str, pa.DataType] = {
    **dict.fromkeys(COUNTED, I64),
    "precision": F64,
    "recall": F64,
    **dict.fromkeys(TOKENS, I64),
    "reuse_token_error": F64,
    "reuse_token_bias": F64,
}
SESSIONS: dict[str, pa.DataType] = {
    **dict.fromkeys(("sessions_true", "sessions_rule", "sessions_equal"), I64),
    **dict.fromkeys(
        ("exact_parent_share", "same_session_share", "recall_ceiling", "purity", "completeness"), F64
    ),
    **dict.fromkeys(("merges", "splits"), I64),
    "active_mean": F64,
    "parents_outside": I64,
}
NO_USERS = (
    "the trace states no users: the rule sees one user, so every session of the trace goes on beside "
    "every other; --users deals the true sessions to more users"
)
OF_BLOCKS = "links of blocks are a truth of their own: see the limits in docs/session-accuracy.md"
BLOCK_TOKENS = (
    "reuse tokens of the rule are those of shared whole blocks: the true ones hold the parent's answer, too"
)


@dataclass(frozen=True)
class DealtPart:
    """A part of a trace with other users.

    held   the part
    users  int32[rows], codes
    texts  of the codes
    """

    held: Part
    users: npt.NDArray[np.int32]
    texts: list[str]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.held.rows

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        table = self.held.arrow(columns)
        if "user" not in table.column_names:
            return table
        at = table.column_names.index("user")
        return table.set_column(at, table.schema.field(at), category_array(self.users, self.texts))

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`."""
        return f"{self.held.fingerprint()} {len(self.texts)} {self.users.sum()}"


def deal(trace: Trace, sessions: Ints, users: int, *, seed: int = SEED) -> Trace:
    """The trace with each session given to one of so many users at random, whoever sent it.

    sessions  int64[rows], -1 for rows of no session, which have no user
    users     at least 1

    The same seed deals the same; nothing of the trace is modified.
    """
    known, code = np.unique(sessions, return_inverse=True)
    chosen = np.random.default_rng(seed).integers(0, users, len(known)).astype(np.int32)
    codes = np.where(sessions < 0, np.int32(schema.NULL_CODE), chosen[code]).astype(np.int32)
    texts = [f"user-{i}" for i in range(users)]
    parts = tuple(
        DealtPart(part, codes[low : low + part.rows], texts)
        for part, low in zip(trace.parts, trace.starts, strict=False)
    )
    names = [name for name in schema.NAMES if name == "user" or trace.has(name)]
    return replace(trace.with_meta(columns=names), parts=parts)


def true_links(trace: Trace, options: SessionOptions, truth: str) -> Links:
    """The links that count as true. Raises UsageError where the trace does not have them."""
    if truth not in TRUTHS:
        raise unknown_name("truth", truth, TRUTHS)
    if truth == "stated" and not trace.has("session_id"):
        known = " It has block ids: --against blocks." if trace.has("block_ids") else ""
        raise UsageError(f"--against stated needs stated sessions, and the trace has none.{known}")
    return session_links(trace, replace(options, rule=truth))


def accuracy(
    trace: Trace,
    options: SessionOptions = SessionOptions(),  # noqa: B008 (frozen)
    *,
    truth: str = "stated",
    look_backs: Sequence[int] = (),
    users: Sequence[int] = (),
    seed: int = SEED,
) -> list[Table]:
    """Measure a rule against known sessions.

    options     the rule (None: "paper") and its options
    truth       "stated", or "blocks" for the deepest shared prefix of block ids
    look_backs  of the table `accuracy_look_back`; () leaves it out
    users       of the table `accuracy_users`: true sessions are dealt to so many users; () leaves it out
    seed        of the dealing

    Tables: accuracy (one row), accuracy_by, accuracy_look_back, accuracy_users. Definitions:
    docs/session-accuracy.md. Memory: about 300 bytes a row. Raises UsageError where the truth is
    missing, or is the rule itself.
    """
    options = replace(options, rule=options.rule or "paper")
    if options.rule != "paper" and look_backs:
        raise UsageError(f"--look-backs belongs to the rule `paper`; the rule `{options.rule}` looks at all.")
    if options.rule == truth:
        raise UsageError(f"the rule `{truth}` cannot be measured against itself; choose another with --rule.")
    known, facts = true_links(trace, options, truth), read_facts(trace)
    found = compare(session_links(trace, options), known, facts)
    whole = {"rule": TEXT, "truth": TEXT, **_row_schema()}
    binned = {"dimension": TEXT, "low": I64, "high": I64, **LINKS}
    tables = [
        stacked("accuracy", whole, [(options.rule, truth, *_row(found, options))], WHOLE),
        stacked("accuracy_by", binned, list(_by(found)), BY),
    ]
    if look_backs:
        rows = list(_by_look_back(trace, options, look_backs, known, facts))
        tables.append(stacked("accuracy_look_back", _row_schema(), rows, LOOK_BACK))
    if users:
        several = look_backs or (options.look_back,)
        rows = []
        for count in users:
            dealt = deal(trace, known.session, count, seed=seed)
            counted = _by_look_back(dealt, options, several, known, read_facts(dealt))
            rows += [(count, *row) for row in counted]
        tables.append(stacked("accuracy_users", {"users": I64, **_row_schema()}, rows, USERS))
    return tables


def measured(
    trace: Trace,
    options: SessionOptions,
    *,
    truth: str | None,
    look_backs: Sequence[int] = (),
    users: Sequence[int] = (),
) -> tuple[list[Table], list[str]]:
    """`accuracy` and `accuracy_notes`, nothing without a truth.

    Raises UsageError for numbers that are not at least 1, or where they are given without a truth.
    """
    for name, counts in (("--look-backs", look_backs), ("--users", users)):
        if counts and truth is None:
            raise UsageError(f"{name} belongs to --against stated or --against blocks; give one of them.")
        if any(count < 1 for count in counts):
            raise UsageError(f"{name} holds {min(counts)}; give numbers of at least 1.")
    if truth is None:
        return [], []
    tables = accuracy(trace, options, truth=truth, look_backs=look_backs, users=users)
    return tables, accuracy_notes(trace, truth=truth, rule=options.rule or "paper")


def accuracy_notes(trace: Trace, *, truth: str = "stated", rule: str = "paper") -> list[str]:
    """What a reader of the tables must know about this trace."""
    notes = [NO_USERS] if rule == "paper" and not trace.has("user") else []
    notes += [BLOCK_TOKENS] if rule == "blocks" else []
    return [*notes, *([OF_BLOCKS] if truth == "blocks" else [])]


def _by_look_back(
    trace: Trace, options: SessionOptions, look_backs: Sequence[int], known: Links, facts: Facts
) -> Iterator[tuple[Any, ...]]:
    """A row for each look-back."""
    for one in look_backs:
        chosen = replace(options, look_back=one)
        yield _row(compare(session_links(trace, chosen), known, facts), chosen)


def _row_schema() -> dict[str, pa.DataType]:
    return {"look_back": I64, **LINKS, **SESSIONS}


def _row(found: Compared, options: SessionOptions) -> tuple[Any, ...]:
    values = {**link_counts(found), **session_counts(found)}
    look_back = options.look_back if options.rule == "paper" else None
    return (look_back, *(values[name] for name in (*LINKS, *SESSIONS)))


def _by(found: Compared) -> Iterator[tuple[Any, ...]]:
    """Rows of `accuracy_by`: of each dimension the filled bins, which together hold all requests."""
    values = {
        "turn": found.turn,
        "gap_s": np.where(found.gap_us < 0, -1, found.gap_us // SECOND_US),
        "concurrency": found.active,
        "distance": found.distance,
    }
    for dimension, edges in EDGES.items():
        placed = bins(values[dimension], edges)
        for place in np.unique(placed).tolist():
            low = edges[place] if place >= 0 else None
            high = edges[place + 1] if 0 <= place < len(edges) - 1 else None
            counts = link_counts(found, placed == place)
            yield (dimension, low, high, *(counts[name] for name in LINKS))
