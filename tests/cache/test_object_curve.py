"""The curve from reuse distances equals replays; when it is exact is worked out in the module."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.object_curve import FIRST_ACCESS, lru_curve, needs, shrinking_accesses
from servescope.cache.policies import lru
from servescope.cache.requests import Requests, requests_of
from servescope.cache.shrinking_needs import peak_needs


def made(objects: list[int], sizes: list[int]) -> Requests:
    """Requests of these objects, which are numbered anew by first access."""
    codes = {item: code for code, item in enumerate(dict.fromkeys(objects))}
    dense = np.array([codes[item] for item in objects], np.int32)
    return requests_of(dense, np.array(sizes, np.int64), np.arange(len(objects)))


def replayed(requests: Requests, capacity: int) -> np.ndarray:
    hits = np.zeros(len(requests.objects), np.uint8)
    lru.run(lru.new(requests, capacity, 0), requests, hits, 0, len(hits))
    return hits


@st.composite
def growing(draw: st.DrawFn) -> Requests:
    """Objects whose sizes never shrink, several sharing a size."""
    objects = draw(st.lists(st.integers(0, 7), min_size=1, max_size=60))
    held: dict[int, int] = {}
    for item in objects:
        held.setdefault(item, 0)
    sizes = []
    for item in objects:
        held[item] += draw(st.integers(0 if held[item] else 1, 5))
        sizes.append(held[item])
    return made(objects, sizes)


@st.composite
def changing(draw: st.DrawFn) -> Requests:
    """Objects of any size at any access."""
    objects = draw(st.lists(st.integers(0, 7), min_size=1, max_size=60))
    return made(objects, [draw(st.integers(1, 9)) for _ in objects])


@given(st.one_of(growing(), changing()), st.integers(0, 20))
def test_every_capacity_from_the_largest_object_on(requests: Requests, first: int) -> None:
    first = min(first, len(requests.objects))
    credits = np.arange(1, len(requests.objects) + 1)
    curve = lru_curve(requests, credits, first=first)
    largest = int(requests.sizes.max())
    assert curve.capacity_tokens[0] == largest
    assert (np.diff(curve.capacity_tokens) > 0).all()
    for capacity in range(largest, int(requests.sizes.sum()) + 3):
        hits = replayed(requests, capacity)[first:].astype(bool)
        row = np.searchsorted(curve.capacity_tokens, capacity, "right") - 1
        assert curve.request_hits[row] == hits.sum()
        assert curve.hit_tokens[row] == credits[first:][hits].sum()


@given(growing())
def test_growing_objects_do_not_shrink(requests: Requests) -> None:
    assert shrinking_accesses(requests) == 0


def test_a_shrinking_object_needs_the_largest_sum_of_the_time() -> None:
    # at capacity 10 object 1 pushes 0 out before it shrinks; the sum at the end, 3 + 4, would fit
    requests = made([0, 1, 1, 0], [3, 8, 4, 3])
    assert shrinking_accesses(requests) == 1
    assert replayed(requests, 10).tolist() == [0, 0, 1, 0]
    given_as = (requests.objects, requests.sizes, requests.known)
    assert needs(*given_as).tolist() == [FIRST_ACCESS, FIRST_ACCESS, 8, 7]
    assert peak_needs(*given_as).tolist() == [FIRST_ACCESS, FIRST_ACCESS, 8, 11]


@given(growing())
def test_the_two_ways_agree_where_nothing_shrinks(requests: Requests) -> None:
    given_as = (requests.objects, requests.sizes, requests.known)
    assert needs(*given_as).tolist() == peak_needs(*given_as).tolist()


def test_below_the_largest_object_a_replay_decides() -> None:
    # object 1 is refused at capacity 5 and leaves object 0 alone, though its size counts in the need
    requests = made([0, 1, 0], [2, 9, 2])
    assert replayed(requests, 5).tolist() == [0, 0, 1]
    assert needs(requests.objects, requests.sizes, requests.known).tolist() == [
        FIRST_ACCESS,
        FIRST_ACCESS,
        11,
    ]


def test_slots_run_out_and_close_up() -> None:
    random = np.random.default_rng(4)
    objects = random.integers(0, 30, 3000).tolist()
    requests = made(objects, [1 + item % 4 for item in objects])
    found = needs(requests.objects, requests.sizes, requests.known)
    for number in random.choice(3000, 200, replace=False).tolist():
        item = objects[number]
        before = [i for i in range(number) if objects[i] == item]
        if before:
            since = set(objects[before[-1] : number])
            assert found[number] == sum(1 + other % 4 for other in since)
        else:
            assert found[number] == FIRST_ACCESS


@pytest.mark.parametrize("first", [0, 2])
def test_nothing_comes_again(first: int) -> None:
    curve = lru_curve(made([0, 1], [3, 5]), np.ones(2, np.int64), first=first)
    assert [part.tolist() for part in curve] == [[5], [0], [0]]
