"""What carries the reuse of prefix blocks: a few blocks, a few users, single requests, certain prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.kernels.jit import kernel
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.prompts import Prompts, PromptTrace
    from servescope.cache.reuse_times import Uses
    from servescope.result import Table

Ints = npt.NDArray[np.int64]
TOP_SHARES = ("0.1", "1", "5", "10", "20", "50")  # percent of the distinct blocks
MOST_OF_HITS = 90  # percent of the hits whose users are counted
TOP_PREFIXES = 50
COLUMNS = {
    "who": pa.string(),
    "members": pa.int64(),
    "share_of_members": pa.float64(),
    "reuses": pa.int64(),
    "share_of_reuses": pa.float64(),
}
DOC = (
    "Who makes the reuses of prefix blocks (hits of an unlimited cache): blocks = the most reused 0.1 … 50 % "
    "of the distinct ones; users (sessions where there are no users) = the fewest that make more than 90 % "
    "of the hits; single-turn requests = those that no other follows and that follow none. members: how many "
    "these are."
)
PREFIX_COLUMNS = {
    "node": pa.int64(),
    "depth_blocks": pa.int64(),
    "prefix_tokens": pa.int64(),
    "blocks": pa.int64(),
    "uses": pa.int64(),
    "children": pa.int64(),
    "hit_blocks": pa.int64(),
    "share_of_hit_blocks": pa.float64(),
    "request_types": pa.string(),
}
PREFIX_DOC = (
    "The prefixes that carry the reuse, by hit blocks of an unlimited cache. A row is a run of blocks that "
    "every prompt through its first one goes through: node = its last block (numbered as they arise), "
    "depth_blocks and prefix_tokens = from the start of the prompt to its end, full blocks; blocks = of the "
    "run alone; uses = requests; children = ways on; hit_blocks = blocks x (uses - 1)."
)


def concentration_table(found: PromptTrace, uses: Uses, alone: npt.NDArray[np.bool_]) -> Table:
    """Table `reuse_concentration`. alone: bool[n], requests that follow none and that none follows."""
    reuses = uses.uses.astype(np.int64) - 1
    total = int(reuses.sum())
    rows: list[list[Any]] = []
    by_count = np.bincount(reuses)  # blocks by their reuses: sorted without a sort
    for text in TOP_SHARES:
        members = round(float(text) * 10) * len(reuses) // 1000
        rows.append([f"blocks, top {text} %", members, len(reuses), _of_most_reused(by_count, members)])
    hits = uses.found.astype(np.int64)
    for name in ("user", "session_id"):
        codes = found.columns.get(name)
        if codes is not None and bool((codes >= 0).any()):
            rows.append(_fewest_members("users" if name == "user" else "sessions", codes, hits))
            break
    rows.append(["single-turn requests", int(alone.sum()), len(alone), int(hits[alone].sum())])
    made = [[who, few, ratio(few, many), got, ratio(got, total)] for who, few, many, got in rows]
    return stacked("reuse_concentration", COLUMNS, made, DOC)


def _of_most_reused(by_count: Ints, members: int) -> int:
    """Reuses of the `members` most reused blocks. by_count: blocks by number of reuses."""
    left, got = members, 0
    for count in np.flatnonzero(by_count)[::-1].tolist():
        taken = min(left, int(by_count[count]))
        got, left = got + taken * count, left - taken
    return got


def _fewest_members(who: str, codes: npt.NDArray[Any], hits: Ints) -> list[Any]:
    """The fewest users with more than `MOST_OF_HITS` of the hits of all that have one."""
    stated = codes >= 0
    _, dense = np.unique(codes[stated], return_inverse=True)
    sums = np.bincount(dense, weights=hits[stated]).astype(np.int64)  # exact below 2^53
    order = np.sort(sums)[::-1]
    reached = np.cumsum(order)
    enough = 100 * reached > MOST_OF_HITS * int(sums.sum())
    few = int(enough.argmax()) + 1 if enough.any() else 0
    return [f"{who} with more than {MOST_OF_HITS} % of hits", few, len(sums), int(order[:few].sum())]


def prefixes_table(prompts: Prompts, uses: Uses, kinds: npt.NDArray[np.int32], names: Sequence[str]) -> Table:
    """Table `top_prefixes`, up to `TOP_PREFIXES` rows.

    kinds  int32[n], request types, -1 for none; names: their texts
    """
    known = prompts.known
    ends, starts, children = np.zeros(known, np.int32), np.zeros(known, np.int32), np.zeros(known, np.int32)
    _runs(prompts.parents, uses.uses, starts, ends, children)
    heads = np.flatnonzero((starts == np.arange(known)) & (uses.uses > 1))
    lasts = ends[heads]
    blocks = (prompts.depths[lasts] - prompts.depths[heads] + 1).astype(np.int64)
    hit_blocks = blocks * (uses.uses[heads].astype(np.int64) - 1)
    order = np.lexsort((heads, -hit_blocks))[:TOP_PREFIXES]
    total = int(uses.uses.astype(np.int64).sum()) - known
    rank = np.full(known, -1, np.int8)
    rank[lasts[order]] = np.arange(len(order))
    seen = np.zeros((len(order), len(names) + 1), np.bool_)
    _types(prompts.offsets, prompts.nodes, kinds, rank, seen)
    rows = []
    for place, at in enumerate(order.tolist()):
        node = int(lasts[at])
        depth = int(prompts.depths[node])
        types = [name for name, used in zip([*names, "untyped"], seen[place], strict=True) if used]
        got = int(hit_blocks[at])
        rows.append(
            [node, depth, depth * prompts.block_tokens, int(blocks[at]), int(uses.uses[node]),
             int(children[node]), got, got / total, ", ".join(types) if names else None]
        )  # fmt: skip
    return stacked("top_prefixes", PREFIX_COLUMNS, rows, PREFIX_DOC)


@kernel
def _runs(
    parents: npt.NDArray[np.int32],
    uses: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int32],
    children: npt.NDArray[np.int32],
) -> None:
    """Split the tree into runs of blocks with the same uses.

    starts    int32[known], first node of the run of each node, modified
    ends      int32[known], last node of the run, at its first node, modified
    children  int32[known], nodes right after each node, modified
    """
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            children[parent] += 1
        starts[node] = starts[parent] if parent >= 0 and uses[parent] == uses[node] else node
        ends[starts[node]] = node  # a run has no branches, and a parent is numbered before its child


@kernel
def _types(
    offsets: Ints,
    nodes: npt.NDArray[np.int32],
    kinds: npt.NDArray[np.int32],
    rank: npt.NDArray[np.int8],
    seen: npt.NDArray[np.bool_],
) -> None:
    """Note which types of requests go through the nodes with a rank (seen modified; the last: no type)."""
    for request in range(len(kinds)):
        for place in range(offsets[request], offsets[request + 1]):
            if rank[nodes[place]] >= 0:
                seen[rank[nodes[place]], kinds[request]] = True
