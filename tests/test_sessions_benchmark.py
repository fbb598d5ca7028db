"""The benchmark of rebuilding sessions runs at a small size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "sessions.py"


@pytest.mark.slow
def test_it_reports_speed_ratio_and_memory(tmp_path: Path) -> None:
    arguments = ["--rows", "2e4", "--plain", "2e3", "--folder", str(tmp_path), "--written"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=True, timeout=600
    )
    for word in ("kernel", "and counting", "kernel / plain Python", "M requests/s", "and -o", "MiB peak"):
        assert word in done.stdout, done.stdout
    assert not tmp_path.exists()
