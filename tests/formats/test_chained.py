"""Whether block ids are chained: the kernels agree with comparing whole prefixes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.formats.chained import is_chained
from tests.reference import sessions
from tests.shared import DATA, needs_data


def arrays(rows: list[list[int]]) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], np.ndarray]:  # type: ignore[type-arg]
    values = np.array([block for row in rows for block in row], np.uint64)
    return values, np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)


@st.composite
def prompts(draw: st.DrawFn) -> list[list[int]]:
    """Walks in a tree of ids, so that many are chained; now and then one id is changed."""
    scale = draw(st.sampled_from([1, 2**40 + 1]))
    walks = draw(st.lists(st.lists(st.integers(0, 1), max_size=5), max_size=8))
    rows = [
        [scale * int("1" + "".join(map(str, walk[: i + 1])), 2) for i in range(len(walk))] for walk in walks
    ]
    if draw(st.booleans()) and any(rows):
        row = draw(st.sampled_from([row for row in rows if row]))
        row[draw(st.integers(0, len(row) - 1))] = scale * draw(st.integers(2, 9))
    return rows


@given(prompts())
def test_like_comparing_prefixes(rows: list[list[int]]) -> None:
    assert is_chained(*arrays(rows)) == sessions.is_chained(rows)


@pytest.mark.parametrize(
    ("rows", "chained"),
    [
        ([], True),
        ([[], []], True),
        ([[1, 2], [1, 2, 3]], True),
        ([[1, 2], [2]], False),
        ([[1, 1]], False),
        ([[2**64 - 1, 2**63], [2**64 - 1, 2**63, 5]], True),
        ([[2**64 - 1], [2**63, 2**64 - 1]], False),
        ([[1], [], [1]], True),
        ([[1, 2], []], True),
    ],
)
def test_examples(rows: list[list[int]], chained: bool) -> None:
    assert is_chained(*arrays(rows)) is chained


def test_many_wide_ids_grow_the_map() -> None:
    rng = np.random.default_rng(10)
    ids = rng.integers(2**40, 2**63, 5_000).astype(np.uint64)
    offsets = np.array([0, 5_000, 10_000], np.int64)
    twice = np.concatenate([ids, ids])
    assert is_chained(twice, offsets)
    twice[-1] = twice[-2]
    assert not is_chained(twice, offsets)


@needs_data
def test_mooncake_is_chained() -> None:
    from tests.formats.reading import read

    assert read(DATA / "mooncake_synthetic.jsonl").meta.chained is True
