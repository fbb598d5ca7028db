"""The engine `ray` on a cluster of two nodes on this machine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from servescope.engine import ray as engine
from servescope.errors import DataError, UsageError
from servescope.views import run_views, sliced
from servescope.views.resume import Keeper
from servescope.views.slices import Slice, StoredScan
from tests.traces import build
from tests.views.test_resume import document, long

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


def test_without_the_package_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r'pip install "servescope\[ray\]"'):
        list(engine.map(str, [1]))


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(UsageError, match=r'unknown engine "rya".*Did you mean ray'):
        run_views(build({"arrival_us": [0]}), engine="rya")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, and this process connected to them."""
    ray = pytest.importorskip("ray")
    utility = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        whole = utility.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        whole.add_node(num_cpus=1)
        whole.wait_for_nodes()
        yield whole
        ray.shutdown()
        whole.shutdown()


def _square(one: int) -> int:
    if one == 13:
        raise DataError("slice 13 is bad")
    if one == 14:
        raise ValueError("a defect")
    return one * one


class Dying:
    """Ends its own worker process the first time that it meets a slice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, one: int) -> int:
        mark = self.folder / str(one)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return -one


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_results_come_in_order_and_errors_as_they_were(cluster: Any) -> None:
    address = cluster.address
    assert list(engine.map(_square, range(9), address=address)) == [i * i for i in range(9)]
    with pytest.raises(DataError, match="slice 13 is bad"):
        list(engine.map(_square, range(10, 20), address=address))
    with pytest.raises(ValueError, match="a defect"):
        list(engine.map(_square, [1, 14], address=address))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_is_retried(cluster: Any, tmp_path: Path) -> None:
    assert list(engine.map(Dying(tmp_path), range(4), address=cluster.address)) == [0, -1, -2, -3]
    assert len(list(tmp_path.iterdir())) == 4


class KillingScan(StoredScan):
    """Dies once on every slice, after half of the work: with a file half written."""

    def __call__(self, one: Slice) -> str:
        mark = Path(self.folder) / f"died-{one.first}-{len(one.views)}"
        if not mark.exists():
            mark.touch()
            self.scan(one)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(one)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("killed", [False, True])
def test_the_same_tables_as_on_threads(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr(sliced, "SLICE_ROWS", 30)
    if killed:
        monkeypatch.setattr(sliced, "StoredScan", KillingScan)
    trace = build(long(90, block_ids=[[i % 7] for i in range(90)]), cuts=tuple(range(10, 90, 10)))
    running = {"engine": "ray", "address": cluster.address, "folder": tmp_path}
    found, _ = document(trace, **running)
    assert found == document(trace)[0]
    assert bool(list(tmp_path.glob("died-*"))) == killed
    assert len(list(tmp_path.glob("*.state"))) == 2
    again, _ = document(trace, resume=True, folder=tmp_path)  # what Ray left, taken up on threads
    assert again == found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_is_started_for_the_run_and_files_of_a_lost_run_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setattr(sliced, "SLICE_ROWS", 1)
    trace = build(long(40), cuts=(10, 20, 30))
    names = ["load_hour", "user_stats"]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        document(trace, names=names, engine="ray", folder=tmp_path, progress=stop)
    left = {path: path.stat().st_mtime_ns for path in tmp_path.glob("slice-*.state")}
    assert left
    for name in ("keep", "store"):
        monkeypatch.setattr(Keeper, name, lambda *rest: None)  # so that the files stay to be looked at
    found, _ = document(trace, names=names, engine="ray", folder=tmp_path, resume=True)
    assert found == document(trace, names=names)[0]
    assert {path: path.stat().st_mtime_ns for path in left} == left
