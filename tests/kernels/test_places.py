"""The set of numbers that knows its largest member, and positions in order of use."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import places, recency


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9_000)), max_size=60))
def test_the_largest_member_is_that_of_a_set(changes: list[tuple[bool, int]]) -> None:
    levels, members = places.empty_places(9_001), set()
    for put, number in changes:
        if put:
            places.add_place(levels, number)
            members.add(number)
        else:
            places.drop_place(levels, number)
            members.discard(number)
        assert places.largest_place(levels) == max(members, default=-1)


def test_more_numbers_than_one_word_of_the_top_level() -> None:
    levels = places.empty_places(1 << 20)
    for number in (0, 63, 64, 4095, 4096, 262_143, 262_144, (1 << 20) - 1):
        places.add_place(levels, number)
        assert places.largest_place(levels) == number


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 90)), max_size=12))
def test_taken_slots_are_counted_from_any_slot(runs: list[tuple[int, int]]) -> None:
    bits, sums = np.zeros(8, np.uint64), np.zeros(9, np.int32)
    taken = np.zeros(512, bool)
    for first, number in runs:
        if taken[first : first + number].any():
            taken[first : first + number] = True
            bits[:], sums[:] = 0, 0
            for slot in np.flatnonzero(taken):
                recency.fill(bits, sums, int(slot), 1)
        else:
            recency.fill(bits, sums, first, number)
            taken[first : first + number] = True
    for slot in range(0, 512, 7):
        assert recency.taken_from(bits, sums, int(taken.sum()), slot) == taken[slot:].sum()
    for slot in np.flatnonzero(taken)[::2]:
        recency.clear(bits, sums, int(slot), 1)
        taken[slot] = False
    assert recency.taken_from(bits, sums, int(taken.sum()), 5) == taken[5:].sum()
    slots = np.append(np.flatnonzero(taken), -1).astype(np.int32)[::-1].copy()
    recency.renumber(bits, slots, len(slots))
    assert slots.tolist() == [-1, *range(len(slots) - 2, -1, -1)]
