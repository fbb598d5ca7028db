"""Cells of hours as bytes and back."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.views.hour_cells import Cells, coded, decoded, new_cells, windows

HOUR_US = 3_600_000_000
GAPS = st.lists(st.sampled_from([1, 2, 127, 128, 999_999, HOUR_US // 3]), max_size=3)
WORD = st.sampled_from([0, 1, 127, 128, 300, 2**31 - 1])


@st.composite
def cells(draw: st.DrawFn) -> Cells:
    """Cells with all that an hour allows: its first gaps sum up to less than an hour."""
    places = sorted(draw(st.sets(st.tuples(WORD, WORD), min_size=1, max_size=12)))
    made = new_cells(len(places))
    for at, (hour, model) in enumerate(places):
        gaps = draw(st.one_of(GAPS, st.just([HOUR_US - 1]), st.just([HOUR_US - 2, 1])))
        ties = draw(st.sampled_from([0, 1, 200, 2**31]))
        made.hour[at], made.model[at] = hour, model
        made.requests[at], made.gaps[at] = len(gaps) + 1 + ties, len(gaps)
        made.sums[at], made.squares[at] = sum(gaps), sum(gap * gap for gap in gaps)
    return made


def listed(held: Cells) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in held), strict=True))


@given(cells())
def test_what_is_coded_is_decoded(made: Cells) -> None:
    for number in range(1, len(made.hour) + 1):
        held = coded(made, number)
        assert listed(decoded(held)) == listed(made)[:number]
        assert (held.cells, held.first_hour, held.last_hour) == (number, made.hour[0], made.hour[number - 1])


def test_a_single_request_takes_two_bytes() -> None:
    made = new_cells(100)
    made.hour[:], made.model[:], made.requests[:] = 7, np.arange(100), 1
    assert len(coded(made, 100).data) == 2 + 2 * 100


@given(cells(), st.lists(st.integers(0, 12), max_size=4), st.integers(1, 5))
def test_windows_do_not_depend_on_the_parts(made: Cells, cuts: list[int], most: int) -> None:
    edges = [0, *sorted(min(at, len(made.hour)) for at in cuts), len(made.hour)]
    parts = (Cells._make(column[a:b] for column in made) for a, b in itertools.pairwise(edges))
    found = [listed(piece) for piece in windows(parts, most)]
    assert [row for piece in found for row in piece] == listed(made)
    assert [len(piece) for piece in found[:-1]] == [most] * (len(found) - 1) and len(found[-1]) <= most
