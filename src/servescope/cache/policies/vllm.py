"""vLLM's prefix cache (v1; kv-reuse, B.1): a queue of free slots, some of which still hold a known block.

Only whole blocks get a key, and a prompt never hits its last token. A request takes its hits out of the
queue, and new slots from the left of it; a slot whose block had a key loses it, which is the eviction. At
the end its slots go to the right of the queue, the last first. Slots of a partial last block, and of the
answer where `answers` says so, take room like any other and come back to the queue without a key; with
`answers=2` the whole blocks of an answer get keys at its end, as far as a follow-up shows them.

A block that is computed once more (beyond the last hit) moves its key to the newer slot, where vLLM keeps
both: the content is there as long either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import EVICTIONS, PEAK, USED, counters
from servescope.cache.policies.ended import next_ended
from servescope.errors import UsageError
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

# answers: 0 = take no room; 1 = take room while the request runs; 2 = and their whole blocks get keys
PARAMETERS: dict[str, float] = {"answers": 0}
KEYED = 2


class State(NamedTuple):
    """Slots; those that nobody holds are in the queue, a ring closed by one more place.

    counts      int64[4], see `counts`; USED are slots whose block has a key
    slot_of     int32[known], slot of a block, -1: not cached
    node_of     int32[slots], block of a slot, -1: no key
    users       int32[slots], requests that hold it
    after       int32[slots + 1], next in the queue, to the right
    before      int32[slots + 1]
    slot_at     int32[references], slot of each block of a prompt that is held
    held        int32[n], blocks that a request holds or held, from its first
    extra       int32[n], the last slot that it took for its answer, -1: none
    extra_next  int32[slots], the one taken before that by the same request
    taken       int32[n], slots that it took for its answer
    ended       int64[1], requests of `Prompts.ending` that have let go
    answers     int64[1]
    """

    counts: npt.NDArray[np.int64]
    slot_of: npt.NDArray[np.int32]
    node_of: npt.NDArray[np.int32]
    users: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    slot_at: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    extra: npt.NDArray[np.int32]
    extra_next: npt.NDArray[np.int32]
    taken: npt.NDArray[np.int32]
    ended: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]


def new(prompts: Prompts, capacity_blocks: int, seed: int, *, answers: float = 0) -> State:
    """An empty cache for these prompts; `seed` is not used. Raises UsageError for another `answers`."""
    if answers not in (0, 1, 2):
        raise UsageError(f"vllm takes answers=0, 1 or 2, not {answers:g}.")
    outputs = prompts.outputs.astype(np.int64).sum() if answers else 0
    most = len(prompts.nodes) + 2 * len(prompts.tails) + int(outputs) // prompts.block_tokens
    slots = min(capacity_blocks, most)  # with more, some would never be taken
    requests = len(prompts.tails)
    ring = np.arange(1, slots + 2, dtype=np.int32)
    ring[slots] = 0
    back = np.arange(-1, slots, dtype=np.int32)
    back[0] = slots
    return State(
        counters(capacity_blocks),
        np.full(prompts.known, -1, np.int32),
        np.full(slots, -1, np.int32),
        np.zeros(slots, np.int32),
        ring,
        back,
        np.full(len(prompts.nodes), -1, np.int32),
        np.zeros(requests, np.int32),
        np.full(requests, -1, np.int32),
        np.full(slots, -1, np.int32),
        np.zeros(requests, np.int32),
        np.zeros(1, np.int64),
        np.array([int(answers)]),
    )


@borrowing_kernel
def _unlink(state: State, slot: int) -> None:
    state.after[state.before[slot]], state.before[state.after[slot]] = state.after[slot], state.before[slot]


@borrowing_kernel
def _free(state: State, slot: int) -> None:
    """One user less; without any the slot goes to the right of the queue."""
    state.users[slot] -= 1
    if state.users[slot] == 0:
        root = len(state.users)
        last = state.before[root]
        state.after[last], state.before[slot], state.after[slot], state.before[root] = slot, last, root, slot


@borrowing_kernel
def _take(state: State) -> int:
    """The slot at the left of the queue, its key forgotten; -1 where all are held."""
    root = len(state.users)
    slot = state.after[root]
    if slot == root:
        return -1
    _unlink(state, slot)
    if state.node_of[slot] >= 0:
        state.slot_of[state.node_of[slot]] = -1
        state.node_of[slot] = -1
        state.counts[EVICTIONS] += 1
        state.counts[USED] -= 1
    state.users[slot] = 1
    return int(slot)


@borrowing_kernel
def _name(state: State, slot: int, node: int) -> None:
    """Give a slot the key of a block; an older slot with it loses it."""
    older = state.slot_of[node]
    if older >= 0:
        state.node_of[older] = -1
    else:
        state.counts[USED] += 1
    state.slot_of[node], state.node_of[slot] = slot, node


@borrowing_kernel
def _let_go(state: State, prompts: Prompts, request: int) -> None:
    """Put the slots of a request back, the last first; answers get their keys before. Changes the state."""
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    first = prompts.answer_offsets[request]
    answers = prompts.answer_offsets[request + 1] - first if state.answers[0] == KEYED else 0
    partial = high > low and prompts.tails[request] < prompts.block_tokens
    number = state.taken[request] + partial  # slots beyond the whole blocks of the prompt
    slot = state.extra[request]
    while slot >= 0:
        number -= 1
        if number < answers and state.slot_of[prompts.answer_nodes[first + number]] < 0:
            _name(state, slot, prompts.answer_nodes[first + number])
        _free(state, slot)
        slot = state.extra_next[slot]
    filled = partial and answers > 0 and state.held[request] == high - low  # the answer filled the last block
    if filled and state.slot_of[prompts.answer_nodes[first]] < 0:
        _name(state, state.slot_at[high - 1], prompts.answer_nodes[first])
    for place in range(low + state.held[request] - 1, low - 1, -1):
        _free(state, state.slot_at[place])


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, slot_of, ended = state.counts, state.slot_of, state.ended
    done = next_ended(prompts, ended[0], request)
    while done >= 0:
        _let_go(state, prompts, done)
        ended[0] += 1
        done = next_ended(prompts, ended[0], request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    tokens = prompts.block_tokens
    length = max(0, high - low - 1) * tokens + (prompts.tails[request] if high > low else 0)
    place = low
    while place < low + (length - 1) // tokens and slot_of[prompts.nodes[place]] >= 0:
        slot = slot_of[prompts.nodes[place]]
        if state.users[slot] == 0:
            _unlink(state, slot)
        state.users[slot] += 1
        state.slot_at[place] = slot
        place += 1
    hits = place - low
    while place < high:
        slot = _take(state)
        if slot < 0:  # all is held: the prompt keeps its first blocks
            break
        state.slot_at[place] = slot
        if place < low + length // tokens:
            _name(state, slot, prompts.nodes[place])
        place += 1
    state.held[request] = place - low
    if state.answers[0] > 0 and place == high:
        _take_answer(state, request, -(-(length + prompts.outputs[request]) // tokens) - (high - low))
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits)


@borrowing_kernel
def _take_answer(state: State, request: int, number: int) -> None:
    """Take slots for an answer, as many as there are. Changes the state."""
    for _ in range(number):
        slot = _take(state)
        if slot < 0:
            break
        state.extra_next[slot] = state.extra[request]
        state.extra[request] = slot
        state.taken[request] += 1


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
