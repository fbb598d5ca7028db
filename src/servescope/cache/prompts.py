"""What a cache of prefix blocks is asked for: prompts as paths through one prefix tree.

A node is one (cache scope, parent node, block id), so a cached prefix never crosses a scope, and the
same id after two different prefixes is two nodes whether ids are chained or not (design, section 14).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.derived import derived_sessions, seen_before
from servescope.errors import UsageError, unknown_name
from servescope.kernels.jit import kernel
from servescope.kernels.trie import Trie

if TYPE_CHECKING:
    from servescope.trace import Batch, Trace

Ints = npt.NDArray[np.int64]
PIECE_ROWS = 1 << 13  # rows inserted at a time: what the tree gives back for them stays small
COLUMNS = (
    "arrival_us",
    "block_ids",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "completed_us",
    "request_type",
    "cache_scope",
    "session_id",
    "parent_id",
    "turn",
    "user",
)


class Prompts(NamedTuple):
    """Prompts in the order of the trace; every block policy's `new` and `run` take them as they stand.

    offsets       int64[n + 1]; prompt i is nodes[offsets[i]:offsets[i + 1]], from its first block
    nodes         int32[references], nodes of the tree, numbered as they arise: a parent before its children
    parents       int32[known], parent node, -1 for a first block
    depths        int32[known], blocks from the start of the prompt up to this one, from 1
    tails         int32[n], tokens of the last block of each prompt; `block_tokens` where it is full
    arrival_us    int64[n], never falling
    ends_us       int64[n], when the request lets go of its blocks, at least its arrival
    ending        int32[n], requests in order of (ends_us, number)
    known         number of nodes
    block_tokens  tokens of a full block
    categories    int32[n], codes of what policies tell apart, such as type and turn; all 0 until they are set
    outputs       int32[n], tokens of the answers, 0 where they are not known
    answer_offsets, answer_nodes
                  int64[n + 1] and int32[…], blocks that an answer leaves behind; none until they are set
    rates         float64[categories, 2], reuse rate (1/s) and probability where they are given, else no row
    """

    offsets: Ints
    nodes: npt.NDArray[np.int32]
    parents: npt.NDArray[np.int32]
    depths: npt.NDArray[np.int32]
    tails: npt.NDArray[np.int32]
    arrival_us: Ints
    ends_us: Ints
    ending: npt.NDArray[np.int32]
    known: int
    block_tokens: int
    categories: npt.NDArray[np.int32]
    outputs: npt.NDArray[np.int32]
    answer_offsets: Ints
    answer_nodes: npt.NDArray[np.int32]
    rates: npt.NDArray[np.float64]


@dataclass(frozen=True)
class PromptTrace:
    """Prompts with what is known of their requests. Rows that state no blocks are left out.

    prompts       see `Prompts`; nothing is held: ends_us equals arrival_us
    requests      int64[n], `request_id` of each prompt
    columns       name -> array[n] of the columns of `COLUMNS` that the trace has
    without_list  chosen rows that state no block list (an empty list is a prompt)
    other_rows    rows of other models, or outside the window
    """

    prompts: Prompts
    requests: Ints
    columns: dict[str, npt.NDArray[Any]]
    without_list: int
    other_rows: int

    @cached_property
    def seen(self) -> Ints:
        """int64[n], leading blocks of each prompt that earlier ones had: the hits of an unlimited cache."""
        return seen_before(self.prompts)[1]

    @cached_property
    def derived(self) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Parents and turns from the block ids alone, see `derived.derived_sessions`."""
        return derived_sessions(self.prompts)

    @cached_property
    def stated_parents(self) -> Ints:
        """int64[n], place of the request that each one states as its parent, -1 for none among these."""
        stated = self.columns["parent_id"].astype(np.int64)
        place = np.searchsorted(self.requests, stated)
        place[place == len(self.requests)] = 0
        return np.where((stated >= 0) & (self.requests[place] == stated), place, -1)


def prompts_of(
    trace: Trace,
    *,
    scoped: bool = True,
    model: str | None = None,
    window_us: tuple[int, int] | None = None,
) -> PromptTrace:
    """Read the prompts of a trace, or of one model and window in it, and lay them into one prefix tree.

    scoped     whether a cached prefix stops at the borders of `cache_scope`
    model      text; None: all models
    window_us  half-open, of arrivals; None: all

    Holds 4 bytes a block reference and 36 bytes a node. Raises UsageError where the trace has no block ids,
    or not that model.
    """
    if not trace.has("block_ids") or trace.meta.block_tokens is None:
        raise UsageError(
            "the trace has no prefix blocks, so blocks cannot be cached. Use --unit session, or make block "
            "ids from logged messages with `servescope fingerprint`."
        )
    if model is not None and (not trace.has("model") or model not in trace.codes("model")):
        raise unknown_name("model", model, trace.names("model") if trace.has("model") else [])
    held = [name for name in COLUMNS if name == "arrival_us" or trace.has(name)]
    gathered = _Gathered(Trie(), [np.zeros(0, np.int32)], [], {name: [] for name in held})
    for batch in trace.batches([*held, *([] if model is None else ["model"])]):
        chosen = np.ones(batch.rows, np.bool_)
        if model is not None:
            chosen &= batch["model"] == trace.codes("model")[model]
        if window_us is not None:
            arrival = batch["arrival_us"].astype(np.int64)
            chosen &= (arrival >= window_us[0]) & (arrival < window_us[1])
        gathered.add(batch, chosen, scoped)
    return gathered.finish(trace.meta.block_tokens)


@dataclass
class _Gathered:
    tree: Trie
    nodes: list[npt.NDArray[np.int32]]
    lengths: list[Ints]
    columns: dict[str, list[npt.NDArray[np.generic]]]
    without_list: int = 0
    other_rows: int = 0

    def add(self, batch: Batch, chosen: npt.NDArray[np.bool_], scoped: bool) -> None:
        stated = np.flatnonzero(~batch.block_null & chosen)
        self.columns.setdefault("request_id", []).append(stated + batch.start)
        for name, pieces in self.columns.items():
            if name not in ("request_id", "block_ids"):
                pieces.append(batch[name][stated])
        lengths = np.diff(batch.block_offsets)
        self.lengths.append(lengths[stated])
        self.other_rows += int((~chosen).sum())
        self.without_list += int((batch.block_null & chosen).sum())
        values = batch.block_values
        if not chosen.all():
            values = values[np.repeat(chosen, lengths)]
            lengths = np.where(chosen, lengths, 0)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        scopes = np.full(batch.rows, -1, np.int64)
        if scoped and "cache_scope" in batch.columns:
            scopes = batch["cache_scope"].astype(np.int64)
        for low in range(0, batch.rows, PIECE_ROWS):
            high = min(low + PIECE_ROWS, batch.rows)
            offsets = bounds[low : high + 1]
            piece = np.ascontiguousarray(values[offsets[0] : offsets[-1]])
            inserted = self.tree.insert(scopes[low:high], offsets - offsets[0], piece)
            self.nodes.append(inserted.nodes.astype(np.int32))

    def finish(self, block_tokens: int) -> PromptTrace:
        columns = {
            name: np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
            for name, pieces in self.columns.items()
            if name != "block_ids"
        }
        lengths = np.concatenate([np.zeros(0, np.int64), *self.lengths])
        arrival = columns["arrival_us"].astype(np.int64)
        tails = np.full(len(lengths), block_tokens, np.int32)
        if "input_tokens" in columns:
            tails = tail_tokens(columns["input_tokens"].astype(np.int64), lengths, block_tokens)
        tree = self.tree
        requests = columns.pop("request_id").astype(np.int64)
        prompts = Prompts(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate(self.nodes),
            np.maximum(tree.parents[: tree.used], -1).astype(np.int32),
            tree.depths[: tree.used].copy(),
            tails,
            arrival,
            arrival,
            np.arange(len(lengths), dtype=np.int32),
            tree.used,
            block_tokens,
            np.zeros(len(lengths), np.int32),
            np.maximum(columns.get("output_tokens", np.zeros(len(lengths))), 0).astype(np.int32),
            np.zeros(len(lengths) + 1, np.int64),
            np.zeros(0, np.int32),
            np.zeros((0, 2)),
        )
        return PromptTrace(prompts, requests, columns, self.without_list, self.other_rows)


def tail_tokens(input_tokens: Ints, lengths: Ints, block_tokens: int) -> npt.NDArray[np.int32]:
    """int32[n]: tokens in the last block of each prompt; full where the input's length is not known."""
    tails = input_tokens - (lengths - 1) * block_tokens
    known = (input_tokens > 0) & (tails > 0) & (tails <= block_tokens)
    return np.where(known, tails, block_tokens).astype(np.int32)


@kernel
def next_requests(
    offsets: npt.NDArray[np.int64], nodes: npt.NDArray[np.int32], known: int
) -> npt.NDArray[np.int32]:
    """int32[references]: the next request whose prompt goes through the same node, n where none does."""
    requests = len(offsets) - 1
    coming = np.full(known, requests, np.int32)
    nexts = np.empty(len(nodes), np.int32)
    for request in range(requests - 1, -1, -1):
        for place in range(offsets[request], offsets[request + 1]):
            nexts[place] = coming[nodes[place]]
            coming[nodes[place]] = request
    return nexts
