"""Slices whose results are not wanted any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from servescope.engine import local
from servescope.errors import DataError
from servescope.views.scan import run_views
from tests.traces import build
from tests.views.slicing import slices_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_the_folder_of_states_outlives_the_slices_in_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = build({"arrival_us": [5, 4, 6, 7, 8, 9]}, cuts=(1, 2, 3, 4, 5))
    at_the_end = []

    def slowly(work: Any, slices: Any, *, threads: int, address: str | None) -> Iterator[str]:
        def each(one: Any) -> str:
            if one.first > 1:  # the second slice is the one that goes back
                time.sleep(0.1)
            made: str = work(one)
            at_the_end.append(any(tmp_path.iterdir()))
            return made

        return local.map(each, slices, threads=threads)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with slices_of(1) as engine:
        monkeypatch.setattr("servescope.engine.ray.map", slowly)
        with pytest.raises(DataError, match="request 1 arrives before"):
            run_views(trace, ["load_hour"], threads=2, **engine)
    assert len(at_the_end) > 2 and all(at_the_end)
    assert list(tmp_path.iterdir()) == []
