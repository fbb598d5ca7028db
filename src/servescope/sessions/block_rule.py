"""Sessions from block ids: a request continues the one that first sent the deepest block they share.

The deepest known block of a request is the last one of the leading run of its blocks that earlier
requests of its cache scope sent as the same prefix. If fewer than `shared_by` earlier requests hold
that block, the request continues the one that sent it first: it is the next turn of that one's
session. If more hold it, the block belongs to a template (a system prompt, a document that many ask
about) and says nothing about sessions: the request starts one. So does a request that shares nothing.

Sessions are trees: several requests may continue one. What the rule cannot see: a parent that added
less than one whole block to its own parent (the request is then linked to the grandparent, one turn
low), a parent shorter than one block, and a repeated prompt is a child of the first of its kind.

Source: the derivation of turns from ids in the specification of block reuse; it is the one that the
workload-aware cache policy uses where a trace states no turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError, unknown_name
from servescope.kernels.jit import kernel
from servescope.kernels.trie import Trie, longer
from servescope.sessions.links import Links, SessionOptions, empty_links, window_us

if TYPE_CHECKING:
    from servescope.trace import Batch, Trace

Ints = npt.NDArray[np.int64]
SHARED_BY = 5
MOST_SHARED = 255  # a count is one byte
ANY = -2  # a model code: requests of every model
FOREVER = 2**62
PIECE_ROWS = 1 << 13  # rows handled at a time: their nodes stay small beside the tree
NO_BLOCKS = (
    "the rule `blocks` needs block ids, and the trace has none. Use --rule paper, or make block ids of "
    "logged messages with `servescope fingerprint`."
)


@kernel
def creator(starts: Ints, rows: int, node: int) -> int:
    """The row that made a node: the last one below `rows` whose first new node is not above it.

    starts  int64[at least rows], number of nodes before each row, not modified
    """
    low, high = 0, rows
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= node:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def link_rows(
    first: int,
    offsets: Ints,
    part: npt.NDArray[np.bool_],
    found: Ints,
    before: Ints,
    nodes: Ints,
    shared_by: int,
    held: npt.NDArray[np.uint8],
    starts: Ints,
    session: Ints,
    parent: Ints,
    turn: npt.NDArray[np.int32],
    prefix_blocks: Ints,
    candidates: npt.NDArray[np.int32],
) -> None:
    """Link the next rows, whose prompts have just been inserted into the tree.

    first                 `request_id` of the first
    offsets               int64[n + 1], bounds of the prompts in `nodes`
    part                  bool[n], rows that take part
    found, before, nodes  see `trie.Inserted`
    shared_by             so many earlier requests make a block a template, 1 to 255
    held                  uint8[nodes], requests that hold a block, counted up to `shared_by`, modified
    starts                int64[rows], number of nodes before each row, modified
    session … candidates  see `Links`, modified; prefix_blocks: shared blocks of a row that is linked

    Slow twin: tests/reference/block_sessions.py.
    """
    for i in range(len(part)):
        row = first + i
        starts[row] = before[i]
        if not part[i]:
            continue
        session[row], turn[row] = row, 1
        if found[i]:
            node = nodes[offsets[i] + found[i] - 1]
            if held[node] < shared_by:
                above = creator(starts, row, node)
                parent[row], session[row], turn[row] = above, session[above], turn[above] + 1
                prefix_blocks[row] = found[i]
                candidates[row] = held[node]
        for j in range(offsets[i], offsets[i + 1]):
            if held[nodes[j]] < shared_by:
                held[nodes[j]] += 1


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a trace; those that take no part have an empty prompt.

    part     bool[n], rows that take part
    scopes   int64[n], code of the cache scope, -1 for none
    offsets  int64[n + 1], bounds of the prompts in `values`
    values   uint64[…], block ids
    input    int64[n], input tokens, negative where they are unknown
    """

    part: npt.NDArray[np.bool_]
    scopes: Ints
    offsets: Ints
    values: npt.NDArray[np.uint64]
    input: Ints


@dataclass(frozen=True)
class Choice:
    """Rows of one model or window: `columns` to read, code of the model (-2: any), bounds of arrivals."""

    columns: tuple[str, ...]
    model: int
    low_us: int
    high_us: int

    def piece(self, batch: Batch, low: int, high: int) -> Piece:
        """The rows `low` up to before `high` of a batch."""
        rows = slice(low, high)
        arrival = batch["arrival_us"][rows].astype(np.int64, copy=False)
        part = ~batch.block_null[rows] & (arrival >= self.low_us) & (arrival < self.high_us)
        if self.model != ANY:
            part &= batch["model"][rows] == self.model
        bounds = batch.block_offsets[low : high + 1]
        values = batch.block_values[bounds[0] : bounds[-1]]
        lengths = np.diff(bounds)
        if not part.all():
            values = values[np.repeat(part, lengths)]
            lengths = np.where(part, lengths, 0)
        none = np.full(high - low, -1, np.int64)
        held = {name: batch.columns[name][rows].astype(np.int64) for name in self.columns[2:]}
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        scopes, tokens = held.get("cache_scope", none), held.get("input_tokens", none)
        return Piece(part, scopes, offsets, np.ascontiguousarray(values), tokens)


def _choice(trace: Trace, options: SessionOptions) -> Choice:
    optional = ["cache_scope", "input_tokens"]
    model, low, high = ANY, -FOREVER, FOREVER
    if options.model is not None:
        if not trace.has("model"):
            raise UsageError("--model cannot be chosen: the trace states no models. Leave it out.")
        if options.model not in trace.codes("model"):
            raise unknown_name("model", options.model, trace.names("model"))
        model = trace.codes("model")[options.model]
        optional.append("model")
    if options.window_days is not None:
        low, high = window_us(trace, options.window_days)
    return Choice(("arrival_us", "block_ids", *(n for n in optional if trace.has(n))), model, low, high)


def block_links(
    trace: Trace,
    options: SessionOptions = SessionOptions(),  # noqa: B008 (frozen)
    *,
    shared_by: int = SHARED_BY,
) -> Links:
    """Sessions of a trace by its block ids; turns are not capped.

    options    `model` and `window_days` apply, the rest belongs to other rules
    shared_by  a block that so many earlier requests hold belongs to a template, 1 to 255

    `prefix_tokens` are those of the leading blocks that a linked request shares with earlier ones
    (`block_tokens` each, at most its input); `candidates` is the number of earlier requests that hold
    the deepest of them. Rows that state no blocks take no part, and rows that take no part share nothing.
    Memory: 29 to 58 bytes a distinct block and 8 a row while it runs, beside the links.
    Raises UsageError without block ids, for a model that is not in the trace, or a wrong `shared_by`.
    """
    if not trace.has("block_ids"):
        raise UsageError(NO_BLOCKS)
    if not 1 <= shared_by <= MOST_SHARED:
        raise UsageError(f"shared_by is {shared_by}; give a number of requests, 1 to {MOST_SHARED}.")
    links = empty_links(trace.rows, "blocks")
    tree, starts, held = Trie(), np.zeros(trace.rows, np.int64), np.zeros(0, np.uint8)
    choice = _choice(trace, options)
    for batch in trace.batches(choice.columns):
        for low in range(0, batch.rows, PIECE_ROWS):
            piece = choice.piece(batch, low, min(low + PIECE_ROWS, batch.rows))
            put = tree.insert(piece.scopes, piece.offsets, piece.values)
            if len(held) < tree.used:
                held = longer(held, len(tree.blocks))
            first = batch.start + low
            link_rows(
                first, piece.offsets, piece.part, put.found, put.before, put.nodes, shared_by, held, starts,
                links.session, links.parent, links.turn, links.prefix_tokens, links.candidates,
            )  # fmt: skip
            rows = slice(first, first + len(piece.part))
            tokens = links.prefix_tokens[rows] * (trace.meta.block_tokens or 1)
            links.prefix_tokens[rows] = np.minimum(tokens, np.where(piece.input < 0, tokens, piece.input))
    return links
