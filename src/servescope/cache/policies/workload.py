"""The workload-aware policy of "KVCache Cache in the Wild" (ATC'25, arXiv 2506.02634; kv-reuse, A.2).

Reuse times of a category (request type and turn) are close to exponential. Of a block idle for t seconds,
last touched by category w, the score is the mass of its reuse time in [t, t + life):

    p_w * exp(-rate_w * t) * (1 - exp(-rate_w * life))

and the smallest score goes first, of equal ones the deeper block. Within a category that is the order of
last use, so one list a category is kept and only their heads are compared. `paper` evicts flat; a block
whose parent is gone then takes room without being able to hit (counted: `orphaned`). `strict` evicts
leaves alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED, counters
from servescope.cache.policies.ended import next_ended
from servescope.errors import UsageError
from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts

# life: the horizon that stands for a block's expected lifespan. fit_share: rates are fitted on this first
# share of the requests; ahead: 1 = and known from the start (what A.6 did). window_s: and fitted again after
# each such window, on it alone; 0 = never again. strict: 1 = leaves alone
PARAMETERS: dict[str, float] = {"life_s": 60.0, "strict": 0, "fit_share": 0.5, "ahead": 0, "window_s": 0.0}
Floats = npt.NDArray[np.float64]


def reuse_probability(
    idle: npt.ArrayLike, rate: npt.ArrayLike, p: npt.ArrayLike, life: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Probability that a block is reused in the next `life` seconds and was not in the `idle` ones before.

    idle, life  seconds; rate: 1/s, inverse mean reuse time; p: probability of any reuse. They broadcast.

    >>> round(float(reuse_probability(10, 0.01, 0.8, 60)), 6)
    0.326602
    """
    idle, rate, p, life = (np.asarray(value, np.float64) for value in (idle, rate, p, life))
    return p * np.exp(-rate * idle) * -np.expm1(-rate * life)


class State(NamedTuple):
    """Cached blocks; those that nobody holds stand in the list of the category that touched them last.

    counts      int64[4], see `counts`, in blocks
    users       int32[known], requests that hold a block; -1: not cached
    children    int32[known], cached blocks right after it
    after       int32[known + categories], next younger block of the list; its end is known + category
    before      int32[known + categories]
    category    int32[known], of the last touch
    touched_us  int64[known], when it was let go, or taken while it is held; -1: never
    held        int32[n], blocks that a request holds or held, from its first
    tallies     int64[3]: requests of `Prompts.ending` that let go, evictions of blocks with cached
                children, request at which rates are fitted next
    records     float64[categories, 3]: touches, those followed by another, seconds between them
    scores      float64[categories, 2]: logarithm of the score at 0 s, and its fall per second
    settings    float64[4]: life_s, strict, window_s, end of the window in seconds
    """

    counts: npt.NDArray[np.int64]
    users: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    category: npt.NDArray[np.int32]
    touched_us: npt.NDArray[np.int64]
    held: npt.NDArray[np.int32]
    tallies: npt.NDArray[np.int64]
    records: Floats
    scores: Floats
    settings: Floats


def new(
    prompts: Prompts,
    capacity_blocks: int,
    seed: int,
    *,
    life_s: float = 60.0,
    strict: float = 0,
    fit_share: float = 0.5,
    ahead: float = 0,
    window_s: float = 0.0,
) -> State:
    """An empty cache; until rates are fitted all categories are alike, which is LRU. `seed` is not used.

    Where `prompts.rates` gives rates and probabilities, these hold throughout and nothing is fitted.
    Raises UsageError for a life that is not positive, a share outside [0, 1], or a negative window.
    """
    if not (life_s > 0 and 0 <= fit_share <= 1 and window_s >= 0):
        raise UsageError("workload_aware needs life_s > 0, fit_share from 0 to 1 and window_s of at least 0.")
    known, kinds = prompts.known, int(prompts.categories.max(initial=0)) + 1
    ring = np.full(known + kinds, -1, np.int32)
    ring[known:] = np.arange(known, known + kinds)
    requests = len(prompts.tails)
    scores = np.zeros((kinds, 2))
    scores[:, 1] = 1.0
    state = State(
        counters(capacity_blocks),
        np.full(known, -1, np.int32),
        np.zeros(known, np.int32),
        ring,
        ring.copy(),
        np.zeros(known, np.int32),
        np.full(known, -1, np.int64),
        np.zeros(requests, np.int32),
        np.array([0, 0, int(fit_share * requests) if fit_share else requests], np.int64),
        np.zeros((kinds, 3)),
        scores,
        np.array([life_s, strict, window_s, window_s]),
    )
    if len(prompts.rates):
        state.scores[:] = _scores(prompts.rates, life_s)
        state.tallies[2], state.settings[2] = -1, 0.0
    elif ahead:
        _fit_ahead(state, prompts, int(state.tallies[2]))
    return state


def _scores(rates: Floats, life_s: float) -> Floats:
    """Scores of given rates (1/s) and probabilities, float64[categories, 2]; without either a score is 0."""
    rate, p = rates[:, 0], rates[:, 1]
    with np.errstate(divide="ignore"):
        at_once = np.log(p) + np.log(-np.expm1(-rate * life_s))
    return np.stack([at_once, np.where(np.isneginf(at_once), 0.0, rate)], axis=1)


def details(state: State) -> dict[str, float]:
    """Fitted rates (1/s) and probabilities by category code, and evictions that left children behind."""
    return {"orphaned": int(state.tallies[1])} | {
        f"fall_per_s_{kind}": float(fall) for kind, fall in enumerate(state.scores[:, 1])
    }


@borrowing_kernel
def _fit(state: State) -> None:
    """Rates and probabilities from the records. Changes `scores` and clears the records."""
    life_s = state.settings[0]
    for kind in range(len(state.records)):
        touches, reused, seconds = state.records[kind]
        if touches == 0:
            continue  # nothing new is known
        if reused == 0 or seconds <= 0:
            state.scores[kind] = (-np.inf if reused == 0 else 0.0), 0.0
            continue
        rate = reused / seconds
        state.scores[kind, 0] = np.log(reused / touches) + np.log(-np.expm1(-rate * life_s))
        state.scores[kind, 1] = rate
    state.records[:] = 0.0


@borrowing_kernel
def _record(state: State, prompts: Prompts, request: int) -> None:
    """Count the touches of a request, and the reuse of what was touched before. Changes the records."""
    now, kind = prompts.arrival_us[request], prompts.categories[request]
    for place in range(prompts.offsets[request], prompts.offsets[request + 1]):
        node = prompts.nodes[place]
        if state.touched_us[node] >= 0:
            state.records[state.category[node], 1] += 1
            state.records[state.category[node], 2] += max(0, now - state.touched_us[node]) * 1e-6
        state.records[kind, 0] += 1


@borrowing_kernel
def _fit_ahead(state: State, prompts: Prompts, until: int) -> None:
    """Fit on the requests before `until` and forget them. Changes the scores."""
    for request in range(until):
        _record(state, prompts, request)
        for place in range(prompts.offsets[request], prompts.offsets[request + 1]):
            state.category[prompts.nodes[place]] = prompts.categories[request]
            state.touched_us[prompts.nodes[place]] = prompts.arrival_us[request]
    _fit(state)
    state.touched_us[:] = -1
    state.tallies[2] = -1


@borrowing_kernel
def _unlink(state: State, node: int) -> None:
    after, before = state.after, state.before
    after[before[node]], before[after[node]] = after[node], before[node]
    after[node] = -1


@borrowing_kernel
def _let_go_of_ended(state: State, prompts: Prompts, request: int) -> None:
    users, after, before, tallies = state.users, state.after, state.before, state.tallies
    done = next_ended(prompts, tallies[0], request)
    while done >= 0:
        low = prompts.offsets[done]
        for place in range(low + state.held[done] - 1, low - 1, -1):
            node = prompts.nodes[place]
            users[node] -= 1
            state.touched_us[node] = prompts.ends_us[done]
            if users[node] == 0:
                root = len(users) + state.category[node]
                last = before[root]
                after[last], before[node], after[node], before[root] = node, last, root, node
        tallies[0] += 1
        done = next_ended(prompts, tallies[0], request)


@borrowing_kernel
def _evict(state: State, prompts: Prompts, now: int) -> bool:
    """Evict the block with the smallest score; whether there was one. Changes the state."""
    users, after, scores, strict = state.users, state.after, state.scores, state.settings[1] > 0
    known = len(users)
    best, least = -1, np.inf
    for kind in range(len(scores)):
        node = after[known + kind]
        while strict and node < known and state.children[node] > 0:
            node = after[node]
        if node >= known:
            continue
        score = scores[kind, 0] - scores[kind, 1] * (now - state.touched_us[node]) * 1e-6
        if best < 0 or score < least or (score == least and prompts.depths[node] > prompts.depths[best]):
            best, least = node, score
    if best < 0:
        return False
    _unlink(state, best)
    users[best] = -1
    if prompts.parents[best] >= 0:
        state.children[prompts.parents[best]] -= 1
    state.counts[USED] -= 1
    state.counts[EVICTIONS] += 1
    state.tallies[1] += state.children[best] > 0
    return True


@borrowing_kernel
def step(state: State, prompts: Prompts, request: int) -> int:
    """One request: how many of its blocks, from the first, were cached. Changes the state."""
    counts, users, settings = state.counts, state.users, state.settings
    now, kind = prompts.arrival_us[request], prompts.categories[request]
    if request == state.tallies[2] or (settings[2] > 0 and now * 1e-6 >= settings[3]):
        _fit(state)
        while settings[2] > 0 and now * 1e-6 >= settings[3]:
            settings[3] += settings[2]
    _let_go_of_ended(state, prompts, request)
    _record(state, prompts, request)
    low, high = prompts.offsets[request], prompts.offsets[request + 1]
    hits = low
    while hits < high and users[prompts.nodes[hits]] >= 0:
        hits += 1
    for place in range(low, high):  # first all that is there, so that nothing of it is evicted
        node = prompts.nodes[place]
        if users[node] == 0:
            _unlink(state, node)
        if users[node] >= 0:
            users[node] += 1
    place = low
    while place < high:
        node = prompts.nodes[place]
        if users[node] < 0:
            if counts[USED] >= counts[CAPACITY] and not _evict(state, prompts, now):
                break
            users[node] = 1
            counts[USED] += 1
            if prompts.parents[node] >= 0:
                state.children[prompts.parents[node]] += 1
        place += 1
    state.held[request] = place - low
    for rest in range(low, high):
        node = prompts.nodes[rest]
        state.category[node], state.touched_us[node] = kind, now
        if rest >= place and users[node] > 0:  # an orphan beyond what fits: this request does not hold it
            users[node] -= 1
            if users[node] == 0:
                root = len(users) + kind
                end = state.before[root]
                state.after[end], state.before[node] = node, end
                state.after[node], state.before[root] = root, node
    counts[PEAK] = max(counts[PEAK], counts[USED])
    return int(hits - low)


@borrowing_kernel
def run(state: State, prompts: Prompts, hits: npt.NDArray[np.int32], first: int, last: int) -> None:
    """Requests `first` up to before `last`. Changes the state and hits[first:last]."""
    for request in range(first, last):
        hits[request] = step(state, prompts, request)
