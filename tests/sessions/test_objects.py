"""Sessions as objects in libCacheSim's format, and what that library makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope import api
from servescope.cache.objects import object_workload
from servescope.errors import UsageError
from servescope.formats.oracle_general import RECORD
from servescope.sessions.links import SessionOptions
from servescope.sessions.objects import with_objects
from tests.cache.sessions import growing_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_rebuilt_sessions_are_objects_with_next_accesses_from_1(tmp_path: Path) -> None:
    trace, path = growing_trace(200), tmp_path / "objects.bin"
    api.export(trace, out=path, to="oracle_general", objects="sessions", model="m1", lossy=True)
    records = np.fromfile(path, RECORD)
    made = object_workload(trace, SessionOptions(model="m1"))
    assert len(records) == made.rows > 60
    assert records["size"].tolist() == made.requests.sizes.tolist()
    _, codes = np.unique(records["object"], return_inverse=True)
    pairs = {(int(a), int(b)) for a, b in zip(codes, made.requests.objects, strict=True)}
    assert len(pairs) == made.requests.known == len({a for a, _ in pairs})
    following = {}
    for number in reversed(range(len(records))):
        item = int(records["object"][number])
        assert records["next"][number] == following.get(item, -1)
        following[item] = number + 1


def test_the_window_leaves_out_what_takes_no_part(tmp_path: Path) -> None:
    path = tmp_path / "objects.bin"
    day = 1 / 86_400
    given = {"objects": "sessions", "lossy": True, "window_days": (0, 100 * day)}
    result = api.export(growing_trace(200), out=path, to="oracle_general", **given)
    assert 0 < len(np.fromfile(path, RECORD)) < 200
    assert any("without a session" in note for note in result.notes)


def test_libcachesim_reads_them_and_counts_the_same_misses(tmp_path: Path) -> None:
    library = pytest.importorskip("libcachesim")
    trace, path = growing_trace(400), tmp_path / "objects.bin"
    api.export(trace, out=path, to="oracle_general", objects="sessions", lossy=True)
    made = object_workload(trace)
    capacity = made.whole // 8
    reader = library.TraceReader(str(path), trace_type=library.TraceType.ORACLE_GENERAL_TRACE)
    assert reader.get_num_of_req() == made.rows
    missed = round(library.LRU(cache_size=capacity).process_trace(reader)[0] * made.rows)
    sizes = made.requests.sizes.tolist()
    assert missed == lru_misses(made.requests.objects.tolist(), sizes, capacity)


def lru_misses(objects: list[int], sizes: list[int], capacity: int) -> int:
    """Misses of an LRU that keeps the size with which an object came in, as that library does."""
    held: dict[int, int] = {}
    missed = 0
    for item, size in zip(objects, sizes, strict=True):
        if item in held:
            held[item] = held.pop(item)
            continue
        missed += 1
        while size <= capacity < sum(held.values()) + size:
            del held[next(iter(held))]
        if size <= capacity:
            held[item] = size
    return missed


def test_choices_without_objects_are_refused() -> None:
    with pytest.raises(UsageError, match="needs --objects sessions"):
        with_objects(growing_trace(5), None, model="m1")
    with pytest.raises(UsageError, match="unknown kind of objects"):
        with_objects(growing_trace(5), "blocks")
