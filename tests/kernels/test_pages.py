"""Counts in pages, and what they leave, against a dict."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.pages import LIMIT, Pages

LINES, LOW, WIDTH, MOST = 6, 10, 4, 4
ROWS = st.lists(st.tuples(st.integers(0, LINES), st.integers(-1, 20), st.booleans()), max_size=30)
Rows = list[tuple[int, int, bool]]


def counted(held: Pages, rows: Rows) -> Counter[tuple[int, int]]:
    """Count the rows; those that are left."""
    line, bins, wanted = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    left = held.count(np.array(line, np.int32), np.array(bins, np.int16), np.array(wanted, np.bool_))
    return Counter((line[at], bins[at]) for at in left.tolist())


def as_dict(held: Pages) -> Counter[tuple[int, int]]:
    return Counter({(a, b): n for a, b, n in zip(*(x.tolist() for x in held.entries()), strict=True)})


def given_pages(batches: list[Rows]) -> set[int]:
    """The lines that get a page: the first ones of each batch with a wanted row, as far as there are any."""
    lines: dict[int, None] = {}
    for rows in batches:
        for line, _, wanted in rows:
            if wanted and line < LINES and len(lines) < MOST - 1:
                lines[line] = None
    return set(lines)


@given(st.lists(ROWS, max_size=4))
def test_every_wanted_row_is_counted_or_left(batches: list[Rows]) -> None:
    held = Pages(LINES, LOW, WIDTH, most=MOST)
    left = Counter[tuple[int, int]]()
    for rows in batches:
        left += counted(held, rows)
    wanted = Counter((line, where) for rows in batches for line, where, counts in rows if counts)
    assert as_dict(held) + left == wanted
    paged = given_pages(batches)
    assert {line for line, where in as_dict(held)} <= paged
    assert not [1 for line, where in left if line in paged and LOW <= where < LOW + WIDTH]


def test_counts_are_moved_before_they_overflow() -> None:
    held = Pages(LINES, LOW, WIDTH)
    assert counted(held, [(0, LOW, True), (1, LOW, False)]) == Counter()
    assert (held.rows, held.full(LIMIT - 2), held.full(LIMIT - 1)) == (2, False, True)
    held.clear()
    assert as_dict(held) == Counter() and not held.full(LIMIT)
    assert counted(held, [(0, LOW, True)]) == Counter() and as_dict(held) == Counter({(0, LOW): 1})
