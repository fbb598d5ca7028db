"""Counts of keys that come often, against the run of all values."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.kernels import frequent, runs
from servescope.kernels.frequent import ENOUGH, Frequent
from servescope.kernels.run_coding import BIN_BITS, BIN_MASK
from servescope.kernels.runs import Runs
from servescope.kernels.shapes import ShapeRuns
from tests.reference import runs as slow

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
LARGE = 2**31 - 1


def drawn(seed: int, rows: int, keys: int) -> Rows:
    """Rows of few keys, some of them often, one too large for a page; bins also outside of pages."""
    random = np.random.default_rng(seed)
    key = np.minimum(random.geometric(0.15, rows) - 1, keys).astype(np.int32)
    key[random.random(rows) < 0.05] = -1
    key[random.random(rows) < 0.02] = LARGE
    first, second = random.choice([0, 1, 2, 5, 6, 7, 9, 10, 2_000], (2, rows)).astype(np.int16)
    return key, first, second


def pieces(rows: Rows, many: int) -> list[Rows]:
    return list(zip(*(np.array_split(column, many) for column in rows), strict=True))


def listed(rows: Rows, column: int) -> list[tuple[int, int]]:
    """Key and bin of the rows that count."""
    return [(row[0], row[column]) for row in zip(*(c.tolist() for c in rows), strict=True)
            if row[0] >= 0 and min(row[1:]) > 0]  # fmt: skip


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CHUNK", 500)
    monkeypatch.setattr(runs, "FAN", 3)


@pytest.mark.parametrize("pages", [2, 4, 64])
def test_both_numbers_are_counted_once(pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "PAGES", pages)
    rows = drawn(pages, 20_000, 40)
    held = ShapeRuns()
    held.often = Frequent(2, 2, 8)
    for piece in pieces(rows, 30):
        held.add(*piece)
    held.merge(ShapeRuns())
    for number in (0, 1):
        assert held.both[number].compact().tobytes() == slow.run(listed(rows, 1 + number))


@pytest.mark.parametrize("pages", [2, 4, 64])
def test_one_number_is_counted_once(pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "PAGES", pages)
    key, first, _ = drawn(7, 20_000, 40)
    held = Runs(Frequent(1, 2, 8))
    for piece in pieces((key, first, first), 30):
        held.count(*piece[:2])
    assert held.compact().tobytes() == slow.run(listed((key, first, first), 1))


def test_a_key_is_counted_from_its_next_row_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "PAGES", 2)
    often = Frequent(1, 1, 4)
    bins = np.full(ENOUGH + 3, 4, np.int16)
    rest = often.sift(np.full(len(bins), 9, np.int32), bins, bins)
    assert [(value >> np.uint64(BIN_BITS), value & BIN_MASK) for value in rest] == [(9, 4)] * ENOUGH
    full = [often.full]
    assert [run.tobytes() for run in often.taken()] == [slow.run([(9, 4)] * 3)]
    for key in (8, 9):
        often.sift(np.full(ENOUGH, key, np.int32), bins[:ENOUGH], bins[:ENOUGH])
        full.append(often.full)
    assert full == [False, False, True]  # the page of 9 had been taken, and is that of 8 now
    assert [run.tobytes() for run in often.taken()] == [b""]


def test_keys_without_bound_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "MOST_KEYS", 100)
    often = Frequent(1, 1, 4)
    keys, bins = np.array([5, LARGE, 99, 100], np.int32).repeat(2 * ENOUGH), np.full(8 * ENOUGH, 1, np.int16)
    for _ in range(2):
        rest = often.sift(keys, bins, bins)
    assert len(often.seen) < 1_000
    assert set((rest >> np.uint64(BIN_BITS)).tolist()) >= {LARGE}
    assert often.taken()[0].tobytes().startswith(slow.run([(5, 1)] * 3 * ENOUGH))


def test_nothing_of_it_is_stored_but_its_shape() -> None:
    often = Frequent(2, 3, 4)
    often.sift(*drawn(3, 5_000, 9))
    assert often.used > 1
    often.taken()
    stored = Frequent.__new__(Frequent)
    stored.__dict__.update(often.__getstate__())
    assert len(stored.seen) == len(stored.counts) == len(stored.owners) == stored.used == 0
    assert stored.counts.shape[1] == often.counts.shape[1]
