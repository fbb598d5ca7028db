"""What a sweep of whole sessions does not let anyone conclude, as the table `limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.tables import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.sweep_tables import Swept
    from servescope.result import Table

VIEW = "caching"
HEAVY = 0.5  # share of the requests above which one user is the workload
DOC = "What this sweep does not let anyone conclude."
ALWAYS = (
    ("no fleet: how requests are spread over instances is not replayed", "one cache serves all requests"),
    (
        "no memory of requests in flight: capacities are for what is kept for reuse",
        "a request is finished before the next one comes",
    ),
    (
        "no reuse across sessions: shared prefixes of prompts do not count",
        "a session is cached and evicted as a whole",
    ),
)


def limits_table(sweeps: Sequence[Swept]) -> Table:
    """Table `limits`: view, limit, because; each once."""
    rows = [*ALWAYS, *(row for swept in sweeps for row in _of(swept))]
    kinds = dict.fromkeys(("view", "limit", "because"), pa.string())
    return stacked("limits", kinds, [[VIEW, *row] for row in dict.fromkeys(rows)], DOC)


def _of(swept: Swept) -> list[tuple[str, str]]:
    made: Any = swept.workload
    who = "" if made.name == "*" else f" of {made.name}"
    counts = made.bases["requests"]
    total = int(counts.sum())
    rows = []
    if made.rule != "stated":
        rows.append(
            (f"no certain hits{who}: a wrong link is a wrong hit", f"sessions are rebuilt ({made.rule})")
        )
    if swept.credit == "prompt":
        rows.append(("no tokens saved: a hit counts its new tokens too", "credit prompt"))
    if made.clusters.kind == "session":
        rows.append((f"no spread over users{who}: intervals are over sessions", "no request has a user"))
    elif total and (share := int(counts[made.clusters.heaviest]) / total) > HEAVY:
        rows.append((f"no typical user{who}: ratios are those of one", f"one user sends {100 * share:.0f}%"))
    if made.first == 0:
        rows.append(
            (f"no steady state{who}: the first hits wait for the cache to fill", "no warm-up is left out")
        )
    return rows
