"""Stopping `convert` at any moment leaves nothing that looks finished."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROWS = 12_000
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
CALL = [sys.executable, "-c", "from servescope.cli import main; main()", "convert"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Bailian-format file that takes a second or so to convert."""
    benchmarks = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, benchmarks)
    try:
        from make_bailian import make
    finally:
        sys.path.remove(benchmarks)
    path = tmp_path_factory.mktemp("source") / "trace.jsonl"
    make(path, ROWS)
    return path


@pytest.fixture(scope="module")
def whole_s(source: Path) -> float:
    """Seconds that the quickest of some conversions takes, compiled kernels in the cache."""
    seconds = []
    for name in ("first", "second", "third", "fourth"):
        begin = time.perf_counter()
        subprocess.run(
            [*CALL, str(source), "-o", str(source.with_name(name))], check=True, capture_output=True
        )
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def stop(source: Path, folder: Path, number: int, after_s: float, temporary: Path) -> int:
    """Convert, send `number` after some seconds, check what is left; returns the exit code."""
    out = folder / "out.parquet"
    child = subprocess.Popen(
        [*CALL, str(source), "-o", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"TMPDIR": str(temporary), "PATH": "", **_kernel_cache()},
    )
    time.sleep(after_s)
    child.send_signal(number)
    _, message = child.communicate(timeout=60)
    left = sorted(path.name for path in folder.iterdir())
    if out.exists():  # it was done before the signal came
        assert pq.read_metadata(out).num_rows == ROWS
    else:
        assert child.returncode != 0
        # a Ctrl-C while Python still starts is answered by Python itself
        assert b"Traceback" not in message or message.rstrip().endswith(b"KeyboardInterrupt")
    if number == signal.SIGKILL:
        assert all(name == "out.parquet" or (name[0] == "." and name.endswith(".part")) for name in left)
    else:
        assert left in ([], ["out.parquet"])
        assert list(temporary.iterdir()) == []
    return child.returncode


def _kernel_cache() -> dict[str, str]:
    return {name: os.environ[name] for name in ("SERVESCOPE_CACHE_DIR", "HOME") if name in os.environ}


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_half_way(source: Path, whole_s: float, tmp_path: Path, number: int) -> None:
    folder, temporary = tmp_path / "folder", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    code = stop(source, folder, number, 0.6 * whole_s, temporary)
    assert code in (0, -signal.SIGKILL, 128 + number)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_stopped_report_leaves_no_folder(
    source: Path, whole_s: float, tmp_path: Path, share: float
) -> None:
    out = tmp_path / "report"
    child = subprocess.Popen([*CALL[:-1], "report", str(source), "-o", str(out)], stderr=subprocess.PIPE)
    time.sleep(share * (whole_s + 3))
    child.send_signal(signal.SIGTERM)
    _, message = child.communicate(timeout=60)
    assert child.returncode in (0, 128 + signal.SIGTERM)
    assert b"Traceback" not in message
    if child.returncode:
        assert list(tmp_path.iterdir()) == []
    else:
        assert (out / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_at_twenty_random_moments(source: Path, whole_s: float, tmp_path: Path, number: int) -> None:
    moments = random.Random(10)
    stopped = 0
    for attempt in range(20):
        folder, temporary = tmp_path / f"folder{attempt}", tmp_path / f"temporary{attempt}"
        folder.mkdir()
        temporary.mkdir()
        stopped += stop(source, folder, number, moments.uniform(0.05, 1.0) * whole_s, temporary) != 0
    assert stopped >= 10
