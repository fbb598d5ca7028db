"""No policy passes the bound, and on tiny traces nothing at all does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope.cache.bound import bound
from servescope.cache.policies import OBJECT_POLICIES
from servescope.cache.random_cases import Case, random_cases
from servescope.cache.requests import NEVER, Requests, requests_of
from servescope.errors import UsageError
from tests.cache.cases import asked, ran
from tests.reference.caches import best_hits

if TYPE_CHECKING:
    import numpy.typing as npt

CASES = 5_200


def prefix_credits(requests: Requests) -> npt.NDArray[np.int64]:
    """Hit tokens of object traces under the credit `prefix`: the smaller of previous size and size."""
    before: dict[int, int] = {}
    credits = np.zeros(len(requests.sizes), np.int64)
    for number, (item, size) in enumerate(
        zip(requests.objects.tolist(), requests.sizes.tolist(), strict=True)
    ):
        credits[number] = min(before.get(item, 0), size)
        before[item] = size
    return credits


def test_no_policy_passes_the_bound() -> None:
    modules = {name: import_module(path) for name, path in OBJECT_POLICIES.items() if name != "lrb"}
    names = list(modules)
    for number, case in enumerate(random_cases(20, CASES)):
        first = number % (len(case.requests.objects) + 1) if number % 2 else 0
        credits = case.requests.sizes if number % 3 else prefix_credits(case.requests)
        most = bound(case.requests, case.capacity_tokens, credits, first=first)
        for name in {"belady", *(names[(number + step) % len(names)] for step in range(0, len(names), 4))}:
            hits, _ = ran(modules[name], case)
            counted = np.array(hits[first:], np.int64)
            assert counted.sum() <= most[0], f"{name}, case {number}"
            assert (counted * credits[first:]).sum() <= most[1], f"{name}, case {number}"


def tiny(case: Case, length: int = 12, objects: int = 4) -> Case:
    """The beginning of a case, with few objects and a small cache, for exhaustive search."""
    kept = case.requests.objects[:length] % objects
    _, first, inverse = np.unique(kept, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[inverse].astype(np.int32)
    requests = requests_of(codes, case.requests.sizes[:length], case.requests.arrival_us[:length])
    return Case(requests, 1 + case.capacity_tokens // 2, case.seed)


def test_the_bound_is_above_what_exhaustive_search_finds() -> None:
    tight = 0
    for number, case in enumerate(random_cases(21, 300)):
        small = tiny(case)
        first = number % 5
        most_hits, _ = bound(small.requests, small.capacity_tokens, small.requests.sizes, first=first)
        best = best_hits(asked(small), small.capacity_tokens, lambda _: 1, first)
        assert best <= most_hits
        tight += best == most_hits
        for credits in (small.requests.sizes, prefix_credits(small.requests)):
            _, most_tokens = bound(small.requests, small.capacity_tokens, credits, first=first)
            values = credits.tolist()
            assert best_hits(asked(small), small.capacity_tokens, values.__getitem__, first) <= most_tokens
    assert tight > 100  # it is not far above, either


def test_a_hit_that_outgrows_the_cache_counts_and_a_larger_object_does_not() -> None:
    requests = requests_of(np.array([0, 0, 0]), np.array([5, 11, 5]), np.zeros(3, np.int64))
    assert bound(requests, 10, requests.sizes) == (1.0, 11.0)


def test_the_last_hit_is_taken_in_part() -> None:
    # two objects of 6 in a cache of 10 that both span access 1: 6 + min(12, 10) + 6 token-steps for 24
    requests = requests_of(np.array([0, 1, 0, 1]), np.full(4, 6), np.zeros(4, np.int64))
    hits, tokens = bound(requests, 10, requests.sizes)
    assert hits == pytest.approx(1 + 10 / 12)
    assert tokens == pytest.approx(6 + 6 * 10 / 12)


def test_an_infinite_cache_hits_all_but_first_accesses() -> None:
    for case in random_cases(22, 50):
        repeats = case.requests.nexts != NEVER
        second = case.requests.nexts[repeats]
        found = bound(case.requests, 1 << 40, case.requests.sizes)
        assert found == (repeats.sum(), case.requests.sizes[second].sum())


def test_warm_up_leaves_out_hits_but_not_room() -> None:
    requests = requests_of(np.array([0, 1, 0, 1]), np.full(4, 6), np.zeros(4, np.int64))
    assert bound(requests, 10, requests.sizes, first=3) == (1.0, 6.0)
    assert bound(requests, 10, requests.sizes, first=4) == (0.0, 0.0)


def test_an_empty_trace_has_no_hits() -> None:
    nothing = np.zeros(0, np.int64)
    assert bound(requests_of(nothing, nothing, nothing), 10, nothing) == (0.0, 0.0)


def test_sums_that_would_overflow_are_refused() -> None:
    requests = requests_of(np.array([0, 0]), np.full(2, 1 << 61), np.zeros(2, np.int64))
    with pytest.raises(UsageError, match="token-steps"):
        bound(requests, 1 << 61, requests.sizes)
