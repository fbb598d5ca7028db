"""Reading ahead: order, errors in their turn, no more in work than is said."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest

from servescope.formats.ahead import MOST_THREADS, ahead


@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_results_come_in_order(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    begun: list[int] = []
    taken = 0

    def work(index: int) -> int:
        begun.append(index)
        assert index - taken <= MOST_THREADS + 1
        return index * index

    for result in ahead(work, 30):
        assert result == taken * taken
        taken += 1
    assert taken == 30 and sorted(begun) == list(range(30))
    assert list(ahead(work, 0)) == []


def test_an_error_waits_for_its_turn_and_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begun: list[int] = []

    def work(index: int) -> int:
        begun.append(index)
        if index == 3:
            raise ValueError("third")
        return index

    seen: list[int] = []
    with pytest.raises(ValueError, match="third"), closing(ahead(work, 100)) as results:
        seen.extend(results)
    assert seen == [0, 1, 2] and len(begun) < 10
    assert not [t for t in threading.enumerate() if t.name.startswith("servescope")]
