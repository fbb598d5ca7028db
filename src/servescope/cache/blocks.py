"""A trace as prompts of prefix blocks, ready to be replayed at many sizes by many policies."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache import block_counts as at
from servescope.cache.categories import Categories, categories_of
from servescope.cache.choice import Choice, policy_of
from servescope.cache.clusters import Clusters, clusters_of
from servescope.cache.policies import BLOCK_POLICIES, FIXED
from servescope.cache.policies.counts import EVICTIONS, PEAK
from servescope.cache.prompts import Prompts, PromptTrace, prompts_of
from servescope.cache.warmup import warm_requests
from servescope.errors import DataError
from servescope.views.block_counts import POSITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.cache.capacity import Size
    from servescope.trace import Trace

    Ints = npt.NDArray[np.int64]
    Tell = Callable[[int], None]

ALL = "*"
CHUNK = 1 << 14  # requests between two reports; a request has hundreds of blocks
LEAST_BLOCKS = 1 << 62


class BlockCounted(NamedTuple):
    """What a cell counted after the warm-up.

    totals       int64[5, groups], in the order of `block_counts.MEASURES`
    evictions    blocks that were evicted
    peak_tokens  most tokens held, all blocks taken as full, warm-up included
    filled       whether anything had to go, or the capacity was reached
    seconds      wall time of the replay alone, nothing read or compiled
    ratios       sum over requests of blocks found / blocks, in 2^-32
    kinds        int64[kinds, 6], by type and turn, see `block_counts.KIND_COUNTS`
    positions    int64[40, 2], references and hits by position in the prompt
    details      what the policy tells of itself
    """

    totals: Ints
    evictions: int
    peak_tokens: int
    filled: bool
    seconds: float
    ratios: int
    kinds: Ints
    positions: Ints
    details: dict[str, float]


@dataclass(frozen=True)
class BlockWorkload:
    """What the cells of one model, or of all, replay. Picklable; arrays must not be modified.

    name        the model, `ALL` for all requests
    prompts     with categories, and with the ends of running requests where these hold their blocks
    clusters    whose requests they are
    first       requests before it fill the cache and are not counted
    categories  type x turn of each request, and where the turns come from
    found       the prompts as they were read, with what is known of their requests
    types       texts of the request types, by code
    scope_lost  leading blocks that would also be found if no cache scope stood between them; None: one scope
    """

    name: str
    prompts: Prompts
    clusters: Clusters
    first: int
    categories: Categories
    found: PromptTrace
    types: tuple[str, ...]
    scope_lost: int | None

    @property
    def measures(self) -> tuple[str, ...]:
        """What a cell counts, in the order of its totals."""
        return at.MEASURES

    @property
    def whole(self) -> int:
        """Distinct nodes, of which a capacity in percent is a part."""
        return self.prompts.known

    @property
    def rows(self) -> int:
        """Requests, warm-up included."""
        return len(self.prompts.tails)

    @cached_property
    def tokens(self) -> Ints:
        """int64[n], tokens of each prompt."""
        return at.prompt_tokens(self.prompts)

    @cached_property
    def ceiling(self) -> npt.NDArray[np.int32]:
        """int32[n], leading blocks of each prompt that an unlimited cache finds."""
        return self.found.seen.astype(np.int32)

    @cached_property
    def bases(self) -> dict[str, Ints]:
        """What hits are divided by, after the warm-up: column -> int64[groups]."""
        ones = np.ones(self.rows, np.int64)
        block_tokens = self.prompts.block_tokens
        return {
            "requests": self.clusters.sums(ones, self.first),
            "input_tokens": self.clusters.sums(self.tokens, self.first),
            "block_references": self.clusters.sums(np.diff(self.prompts.offsets), self.first),
            "full_block_references": self.clusters.sums(self.tokens // block_tokens, self.first),
        }

    def replay(self, choice: Choice, size: Size, *, seed: int, tell: Tell) -> BlockCounted:
        """One cell: the policy of `choice` with a cache of `size.blocks`; `tell` may raise to stop it."""
        prepare(choice)
        hits, state, before, spent = _run(self, choice, size, seed, tell)
        totals = np.zeros((len(at.MEASURES), self.clusters.count), np.int64)
        block_tokens = self.prompts.block_tokens
        ratios = at.count_hits(hits, self.tokens, block_tokens, self.clusters.codes, self.first, totals)
        kinds = np.zeros((len(self.categories.names), len(at.KIND_COUNTS)), np.int64)
        at.count_kinds(
            hits, self.ceiling, self.tokens, block_tokens, self.categories.codes, self.first, kinds
        )
        positions = np.zeros((POSITIONS, 2), np.int64)
        at.count_positions(hits, np.diff(self.prompts.offsets), self.first, positions)
        evictions, peak = int(state[0][EVICTIONS]), int(state[0][PEAK])
        module = policy_of(choice.name, BLOCK_POLICIES)
        return BlockCounted(
            totals,
            evictions - before,
            peak * block_tokens,
            evictions > 0 or peak >= (size.blocks or 0),
            spent,
            ratios,
            kinds,
            positions,
            module.details(state) if hasattr(module, "details") else {},
        )


def _run(
    made: BlockWorkload, choice: Choice, size: Size, seed: int, tell: Tell
) -> tuple[npt.NDArray[np.int32], Any, int, float]:
    """Hits of every request, the state at the end, evictions of the warm-up, seconds of the replay."""
    module = policy_of(choice.name, BLOCK_POLICIES)
    given = {**FIXED.get(choice.name, {}), **dict(choice.parameters)}
    hits = np.zeros(made.rows, np.int32)
    begun = time.perf_counter()
    state = module.new(made.prompts, size.blocks, seed, **given)
    spent = time.perf_counter() - begun
    before, start = 0, 0
    for stop in sorted({*range(CHUNK, made.rows, CHUNK), made.first, made.rows} - {0}):
        begun = time.perf_counter()
        module.run(state, made.prompts, hits, start, stop)
        spent += time.perf_counter() - begun
        if stop == made.first:
            before = int(state[0][EVICTIONS])
        tell(stop - start)
        start = stop
    return hits, state, before, spent


@cache
def prepare(choice: Choice) -> None:
    """Load and compile a policy by one request, so that no replay is timed with it.

    Raises UsageError where a parameter is out of range.
    """
    module = policy_of(choice.name, BLOCK_POLICIES)
    one, none = np.zeros(1, np.int32), np.zeros(1, np.int64)
    prompts = Prompts(
        np.array([0, 1]), one, one - 1, one + 1, one + 1, none, none, one.copy(), 1, 1, one.copy(),
        one.copy(), np.zeros(2, np.int64), one[:0], np.zeros((0, 2)),
    )  # fmt: skip
    state = module.new(prompts, 1, 0, **{**FIXED.get(choice.name, {}), **dict(choice.parameters)})
    module.run(state, prompts, np.zeros(1, np.int32), 0, 1)


def block_workload(
    trace: Trace,
    *,
    model: str | None = None,
    window_us: tuple[int, int] | None = None,
    warmup: float = 0.0,
    seed: int = 10,
    hold: Callable[[PromptTrace], tuple[Prompts, list[str]]] | None = None,
) -> tuple[BlockWorkload, list[str]]:
    """The prompts of a trace, or of one model and window in it, and notes on what is in them.

    model      text; None: all models
    window_us  half-open, of arrivals
    warmup     part of the prompts that is not counted, 0 to below 1
    hold       says how long requests hold their blocks (`answers.with_running`); None: they let go at once

    Raises UsageError without block ids, DataError where no prompt is left.
    """
    found = prompts_of(trace, model=model, window_us=window_us)
    if not len(found.requests):
        raise DataError(
            "no request of the trace can be replayed: none of those chosen states its blocks. "
            "`servescope info` shows models and columns."
        )
    types = trace.names("request_type") if trace.has("request_type") else []
    categories = categories_of(found, types)
    prompts, notes = (found.prompts, []) if hold is None else hold(found)
    prompts = prompts._replace(categories=categories.codes)
    first = warm_requests(warmup, len(found.requests))
    users = found.columns.get("user", np.full(len(found.requests), -1)).astype(np.int32)
    sessions = np.arange(len(found.requests), dtype=np.int32)
    if "session_id" in found.columns:
        sessions = np.unique(found.columns["session_id"], return_inverse=True)[1].astype(np.int32)
    clusters = clusters_of(users, sessions, first=first, seed=seed)
    lost = _scope_lost(trace, found, model, window_us)
    made = BlockWorkload(model or ALL, prompts, clusters, first, categories, found, tuple(types), lost)
    return made, [*notes, *_notes(made, found)]


def _scope_lost(
    trace: Trace, found: PromptTrace, model: str | None, window_us: tuple[int, int] | None
) -> int | None:
    """Blocks that an unlimited cache without scopes finds beyond those that it finds with them."""
    scopes = found.columns.get("cache_scope")
    if scopes is None or not len(scopes) or bool((scopes == scopes[0]).all()):
        return None
    open_ended = prompts_of(trace, scoped=False, model=model, window_us=window_us)
    return int(open_ended.seen.sum()) - int(found.seen.sum())


def _notes(made: BlockWorkload, found: PromptTrace) -> list[str]:
    notes = []
    if found.without_list:
        notes.append(f"{found.without_list:,} requests state no blocks and are not replayed")
    if found.other_rows:
        notes.append(f"{found.other_rows:,} requests of other models or outside the window are left out")
    if made.scope_lost:
        notes.append(
            f"cache scopes keep apart {made.scope_lost:,} blocks that a cache without them would find "
            "(unlimited cache)"
        )
    if made.categories.source == "block ids":
        notes.append("the trace states no turns for all requests: turns are derived from the block ids")
    return notes
