"""The tournament of falling values against a full scan, and the small sets and draws beside it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.count_sketch import empty_sketch, estimate, see
from servescope.kernels.draws import below, generator
from servescope.kernels.falling import NOBODY, empty_tree, greatest, put, take
from servescope.kernels.members import empty_set, enter, leave
from tests.reference.caches import Draws
from tests.reference.learned_caches import Frequencies

PLACES = 7


@given(
    st.lists(
        st.tuples(st.integers(0, PLACES - 1), st.integers(0, 5), st.integers(0, 60), st.integers(0, 6)),
        max_size=60,
    )
)
def test_the_greatest_is_that_of_a_full_scan(steps: list[tuple[int, int, int, int]]) -> None:
    sizes, ends, *_ = tree = empty_tree(PLACES)
    held: dict[int, tuple[int, int]] = {}
    now = 0
    for number, (place, size, ahead, pause) in enumerate(steps):
        now += pause
        if place in held and size == 0:
            del held[place]
            take(*tree, place, 1_000 * now)
        else:
            end = 1_000 * (now + ahead) + number  # no two alike
            held[place] = (size, end)
            sizes[place], ends[place] = size, end
            put(*tree, place, 1_000 * now)
        scanned = {key: (size * (end - 1_000 * now), size, end) for key, (size, end) in held.items()}
        best = max(scanned, key=scanned.__getitem__, default=NOBODY)
        assert greatest(*tree, 1_000 * now) == best


def test_draws_are_those_of_splitmix64() -> None:
    draws, twin = generator(2**70 + 5), Draws((2**70 + 5) % 2**63)
    counts = [1, 2, 3, 1_000, 2**32 - 1] * 20
    assert [below(draws, count) for count in counts] == [twin.below(count) for count in counts]


def test_draws_are_even() -> None:
    draws = generator(3)
    counts = np.bincount([below(draws, 10) for _ in range(20_000)], minlength=10)
    assert ((counts - 2_000) ** 2 / 2_000).sum() < 27.9  # chi square, 9 degrees of freedom, 0.1 %


@given(st.lists(st.integers(0, 9), max_size=50))
def test_members_are_a_set(numbers: list[int]) -> None:
    members, place = empty_set(10)
    held: set[int] = set()
    for number in numbers:
        (leave if number in held else enter)(members, place, number)
        held ^= {number}
        assert set(members[: place[-1]].tolist()) == held
        assert [n for n in range(10) if place[n] >= 0] == sorted(held)


def test_the_sketch_counts_and_ages_as_its_twin() -> None:
    random = np.random.default_rng(5)
    rows, seen = empty_sketch(60, 500)
    twin = Frequencies(64, 500)
    for number in np.minimum(random.zipf(1.4, 3_000), 300).tolist():
        see(rows, seen, number)
        twin.see(number)
        assert estimate(rows, number) == twin.estimate(number)
    assert [estimate(rows, number) for number in range(400)] == [twin.estimate(n) for n in range(400)]


def test_an_estimate_is_never_below_the_count_until_the_sketch_ages() -> None:
    rows, seen = empty_sketch(64, 10_000)
    for number in range(40):
        for _ in range(number % 14):
            see(rows, seen, number)
    assert all(estimate(rows, number) >= number % 14 for number in range(40))
