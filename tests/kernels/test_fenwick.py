"""Sums of prefixes equal those of a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels import fenwick


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(-9, 9)), max_size=40))
def test_prefixes(places: int, changes: list[tuple[int, int]]) -> None:
    tree, plain = fenwick.new(places), [0] * places
    for place, amount in changes:
        fenwick.add(tree, place % places, amount)
        plain[place % places] += amount
    assert [fenwick.total_before(tree, place) for place in range(places + 1)] == [
        sum(plain[:place]) for place in range(places + 1)
    ]
