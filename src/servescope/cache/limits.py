"""What a sweep does not let anyone conclude, as the table `limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.tables import stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from servescope.cache.sweep_tables import Swept
    from servescope.result import Table

    Limit = tuple[str, str]  # what cannot be concluded, why

VIEW = "caching"
HEAVY = 0.5  # share of the requests above which one user is the workload
DOC = "What this sweep does not let anyone conclude."
NO_FLEET = (
    "no fleet: how requests are spread over instances is not replayed",
    "one cache serves all requests",
)
OF_SESSIONS = (
    NO_FLEET,
    (
        "no memory of requests in flight: capacities are for what is kept for reuse",
        "a request is finished before the next one comes",
    ),
    (
        "no reuse across sessions: shared prefixes of prompts do not count",
        "a session is cached and evicted as a whole",
    ),
)


def session_limits(sweeps: Sequence[Swept]) -> Table:
    """Table `limits` of sweeps of whole sessions: view, limit, because; each once."""
    return _table([*OF_SESSIONS, *(row for swept in sweeps for row in _of_sessions(swept))])


def block_limits(sweeps: Sequence[Swept]) -> Table:
    """Table `limits` of sweeps of prefix blocks: view, limit, because; each once."""
    return _table([NO_FLEET, *(row for swept in sweeps for row in _of_blocks(swept))])


def _table(rows: Iterable[Limit]) -> Table:
    kinds = dict.fromkeys(("view", "limit", "because"), pa.string())
    return stacked("limits", kinds, [[VIEW, *row] for row in dict.fromkeys(rows)], DOC)


def _who(made: Any) -> str:
    return "" if made.name == "*" else f" of {made.name}"


def _of_sessions(swept: Swept) -> list[Limit]:
    made: Any = swept.workload
    rows = []
    if made.rule != "stated":
        rows.append(
            (
                f"no certain hits{_who(made)}: a wrong link is a wrong hit",
                f"sessions are rebuilt ({made.rule})",
            )
        )
    if swept.credit == "prompt":
        rows.append(("no tokens saved: a hit counts its new tokens too", "credit prompt"))
    return [*rows, *_of_both(made)]


def _of_blocks(swept: Swept) -> list[Limit]:
    made: Any = swept.workload
    who, prompts = _who(made), made.prompts
    rows = []
    if not bool((prompts.ends_us > prompts.arrival_us).any()):
        rows.append(
            (
                f"no memory of requests in flight{who}: capacities are for what is kept for reuse",
                "requests let go of their blocks as soon as they come",
            )
        )
    if made.categories.source != "stated":
        rows.append(
            (
                f"no certain turns{who}: categories may put a request elsewhere",
                "turns are derived from block ids",
            )
        )
    return [*rows, *_of_both(made)]


def _of_both(made: Any) -> list[Limit]:
    """Limits of whose requests they are, and of the warm-up."""
    who, counts = _who(made), made.bases["requests"]
    total = int(counts.sum())
    rows = []
    if made.clusters.kind == "session":
        rows.append((f"no spread over users{who}: intervals are over sessions", "no request has a user"))
    elif total and (share := int(counts[made.clusters.heaviest]) / total) > HEAVY:
        rows.append((f"no typical user{who}: ratios are those of one", f"one user sends {100 * share:.0f}%"))
    if made.first == 0:
        rows.append(
            (f"no steady state{who}: the first hits wait for the cache to fill", "no warm-up is left out")
        )
    return rows
