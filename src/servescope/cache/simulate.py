"""One cell of a sweep of objects: one policy at one capacity over one row of requests."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.choice import BOUND, Choice, policy_of
from servescope.cache.clusters import tally
from servescope.cache.policies.counts import EVICTIONS, PEAK
from servescope.cache.requests import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.cache.clusters import Clusters
    from servescope.cache.requests import Requests

    Ints = npt.NDArray[np.int64]
    Tell = Callable[[int], None]  # requests done since the last call; may raise to stop the cell

CHUNK = 1 << 12  # fewest requests between two reports
SHORT_S, LONG_S = 0.05, 0.4  # time between two reports
LEARNING = 6_000


class Counted(NamedTuple):
    """What a cell counted after the warm-up.

    totals       int64[2, groups]: hits and hit tokens by group; for the bound one group, rounded down
    evictions    objects that were evicted; None for the bound
    peak_tokens  most tokens held, warm-up included; None for the bound
    filled       whether anything had to go, or the capacity was reached; None for the bound
    seconds      wall time of the replay alone, nothing read or compiled
    details      what the policy tells of itself at the end
    """

    totals: Ints
    evictions: int | None
    peak_tokens: int | None
    filled: bool | None
    seconds: float
    details: dict[str, float]


@cache
def prepare(choice: Choice) -> None:
    """Load and compile a policy by one access, so that no replay is timed with it.

    Raises UsageError where a parameter is out of range or what the policy needs is not installed.
    """
    one = _example(1)
    if choice.name == BOUND:
        from servescope.cache.bound import bound

        bound(one, 1, np.ones(1, np.int64), first=0)
        return
    policy = policy_of(choice.name)
    if hasattr(policy, "details"):  # one that learns: long enough to learn once
        one = _example(LEARNING)
    count = len(one.objects)
    state = policy.new(one, max(1, count // 8), 0, **dict(choice.parameters))
    policy.run(state, one, np.zeros(count, np.uint8), 0, count)


def _example(count: int) -> Requests:
    """Requests of objects that come back now and then, a token each."""
    known = max(1, count // 3)
    objects = np.concatenate([np.arange(known), np.arange(count - known) * 7919 % known]).astype(np.int32)
    return requests_of(objects, np.ones(count, np.int64), np.arange(count, dtype=np.int64))


def replay(
    choice: Choice,
    requests: Requests,
    *,
    credits: Ints,
    clusters: Clusters,
    capacity_tokens: int,
    seed: int,
    first: int,
    tell: Tell,
) -> Counted:
    """Replay the requests with one policy; those before `first` fill the cache and are not counted.

    credits  int64[n], tokens that a hit of the request saves
    """
    prepare(choice)
    if choice.name == BOUND:
        return _bound(requests, credits, capacity_tokens, first, tell)
    policy = policy_of(choice.name)
    count = len(requests.objects)
    hits = np.zeros(count, np.uint8)
    begun = time.perf_counter()
    state = policy.new(requests, capacity_tokens, seed, **dict(choice.parameters))
    spent = time.perf_counter() - begun
    before, start, step = 0, 0, CHUNK
    while start < count:
        stop = min(start + step, first if start < first else count)
        begun = time.perf_counter()
        policy.run(state, requests, hits, start, stop)
        took = time.perf_counter() - begun
        if stop == first:
            before = int(state[0][EVICTIONS])
        tell(stop - start)
        spent, start, step = spent + took, stop, _next_step(step, took)
    totals = np.zeros((2, clusters.count), np.int64)
    tally(hits, credits, clusters.codes, first, totals)
    evictions, peak = int(state[0][EVICTIONS]), int(state[0][PEAK])
    filled = evictions > 0 or peak >= capacity_tokens
    return Counted(totals, evictions - before, peak, filled, spent, _details(policy, state))


def _details(policy: Any, state: Any) -> dict[str, float]:
    return dict(policy.details(state)) if hasattr(policy, "details") else {}


def _next_step(step: int, took_s: float) -> int:
    """Requests until the next report: policies differ in speed a hundredfold, reports should not."""
    if took_s > LONG_S:
        return max(CHUNK, step // 4)
    return 2 * step if took_s < SHORT_S else step


def _bound(requests: Requests, credits: Ints, capacity_tokens: int, first: int, tell: Tell) -> Counted:
    from servescope.cache.bound import bound

    begun = time.perf_counter()
    found = bound(requests, capacity_tokens, credits, first=first)
    spent = time.perf_counter() - begun
    tell(len(requests.objects))
    # hits are whole numbers, so the whole number below bounds them too; the rest is rounding of the sum
    whole = [[int(value * (1 + 1e-12) + 1e-6)] for value in found]
    return Counted(np.array(whole, np.int64), None, None, None, spent, {})
