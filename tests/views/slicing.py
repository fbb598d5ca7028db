"""Slices and merging without a Ray cluster: the tasks run on threads, and leave their files as on one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from servescope.engine import local
from servescope.views import sliced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def slices_of(rows: int | None) -> Iterator[dict[str, Any]]:
    """Options of `run_views` for slices of at least so many rows; None: without slices."""
    if rows is None:
        yield {}
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliced, "SLICE_ROWS", rows)
        patch.setattr(sliced, "MOST_SLICE_ROWS", rows)
        patch.setattr(
            "servescope.engine.ray.map", lambda *work, address, threads: local.map(*work, threads=threads)
        )
        yield {"engine": "ray"}


def _on_threads(*work: Any, threads: int, address: str | None) -> Iterator[Any]:
    return local.map(*work, threads=threads)
