"""Users as groups, dealt into fewer where there are very many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope.cache import clusters as module
from servescope.cache.clusters import clusters_of, tally

if TYPE_CHECKING:
    import pytest


def codes(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_users_are_groups_and_the_busiest_after_the_warm_up_is_the_heaviest() -> None:
    users, objects = codes(5, 5, 5, 2, 2, 9), codes(0, 0, 1, 2, 2, 3)
    found = clusters_of(users, objects)
    assert (found.count, found.members, found.kind) == (3, 3, "user")
    assert found.codes.tolist() == [0, 0, 0, 1, 1, 2]
    assert found.heaviest == 0
    assert clusters_of(users, objects, first=3).heaviest == 1


def test_a_request_without_a_user_belongs_to_its_session() -> None:
    found = clusters_of(codes(7, -1, -1, -1), codes(0, 1, 1, 2))
    assert found.members == 3 and found.kind == "user"
    assert found.codes[1] == found.codes[2] != found.codes[3]
    assert clusters_of(codes(-1, -1, -1), codes(0, 1, 0)).kind == "session"


def test_nobody() -> None:
    assert clusters_of(codes(), codes()).count == 0


def test_many_users_are_dealt_into_groups_but_the_heaviest_stands_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST", 8)
    users = np.concatenate([np.arange(100), np.full(50, 42)]).astype(np.int32)
    found = clusters_of(users, users)
    assert (found.count, found.members) == (8, 100)
    mine = found.codes[users == 42]
    assert (mine == found.heaviest).all()
    assert not (found.codes[users != 42] == found.heaviest).any()
    for user in range(100):
        assert len(set(found.codes[users == user])) == 1
    sizes = np.bincount(found.codes[:100][users[:100] != 42], minlength=8)[1:]
    assert sizes.max() - sizes.min() <= 2  # one of them would have held the heaviest
    assert clusters_of(users, users).codes.tolist() == found.codes.tolist()


def test_tally_counts_hits_and_credits_by_group() -> None:
    totals = np.zeros((2, 2), np.int64)
    hits = np.array([1, 1, 0, 1, 1], np.uint8)
    tally(hits, np.array([10, 20, 30, 40, 50]), codes(0, 1, 1, 0, 1), 1, totals)
    assert totals.tolist() == [[1, 2], [40, 70]]
    sums = clusters_of(codes(0, 1, 1, 0, 1), codes(0, 1, 2, 3, 4)).sums(np.array([1, 2, 3, 4, 5]), 1)
    assert sums.tolist() == [4, 10]
