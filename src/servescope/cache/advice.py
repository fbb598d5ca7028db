"""Where the reuse of prefix blocks comes from, by request type, and what that asks of a router and a cache.

With an unlimited cache, a leading block is found in the request's own session or only in others. Reuse
within sessions is kept by sending the turns of a session to one place; reuse across them (templates,
system prompts, documents) is kept by having the shared prefixes everywhere, and a router that knows only
sessions misses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.owners import Owners
from servescope.kernels.trie import Trie
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import PromptTrace
    from servescope.result import Table

    Ints = npt.NDArray[np.int64]

LEAST_REUSE = 0.05  # of the blocks: below it a cache hardly pays
MOSTLY = 0.5  # of the found blocks: from here on sessions carry the reuse
AFFINITY, TEMPLATES, LITTLE = "session affinity", "cross-request templates", "little to reuse"
ALL, UNTYPED = "*", "untyped"
I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
ADVICE = {
    "request_type": TEXT,
    "requests": I64,
    "block_references": I64,
    "found_blocks": I64,
    "found_ratio": F64,
    "same_session_blocks": I64,
    "cross_session_blocks": I64,
    "same_session_share": F64,
    "advice": TEXT,
    "sessions_from": TEXT,
}
DOC = (
    "Leading blocks that an unlimited cache finds, by request type: in earlier requests of the same session, "
    f"or only in others. advice: {AFFINITY} where sessions carry at least {MOSTLY:.0%} of what is found, "
    f"{TEMPLATES} where others do, {LITTLE} where less than {LEAST_REUSE:.0%} of the blocks is found."
)


def reuse_advice(found: PromptTrace, types: Sequence[str]) -> Table:
    """Table `reuse_advice`: all requests (*), then each type.

    types  texts of the codes in `found.columns["request_type"]`
    """
    prompts = found.prompts
    sessions, source = _sessions(found)
    tree = Trie(used=prompts.known, blocks=np.zeros(prompts.known, np.uint64))
    nodes = prompts.nodes.astype(np.int64)
    own = Owners().visit(tree, sessions, prompts.offsets, nodes)
    codes = found.columns.get("request_type", np.full(len(sessions), -1)).astype(np.int64)
    counts = np.zeros((len(types) + 1, 4), np.int64)
    # requests, references, found, found in the session; the last row: no type
    ones, lengths = np.ones(len(sessions), np.int64), np.diff(prompts.offsets)
    np.add.at(counts, codes, np.stack([ones, lengths, found.seen, np.minimum(own, found.seen)], axis=1))
    names = [*types, UNTYPED]
    rows = [_row(ALL, counts.sum(axis=0).tolist(), source)]
    if types:
        rows += [_row(names[code], counts[code].tolist(), source) for code in np.flatnonzero(counts[:, 0])]
    return stacked("reuse_advice", ADVICE, rows, DOC)


def _row(name: str, counts: list[int], source: str) -> list[Any]:
    requests, references, found, own = counts
    reuse, share = ratio(found, references), ratio(own, found)
    advice = LITTLE
    if reuse is not None and reuse >= LEAST_REUSE:
        advice = AFFINITY if share is not None and share >= MOSTLY else TEMPLATES
    return [name, requests, references, found, reuse, own, found - own, share, advice, source]


def _sessions(found: PromptTrace) -> tuple[Ints, str]:
    """int64[n], session of each request, and where it comes from."""
    if "session_id" in found.columns:
        stated = found.columns["session_id"].astype(np.int64)
        return np.where(stated >= 0, stated, -1), "stated"
    parents = found.derived[0]
    sessions = np.arange(len(parents))
    for request in np.flatnonzero(parents >= 0):
        sessions[request] = sessions[parents[request]]  # a parent stands before its child
    return sessions, "block ids"
