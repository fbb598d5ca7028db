"""The benchmark of a year's scan runs at a small size, and its queries are sound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "views.py"


@pytest.mark.slow
def test_it_reports_speed_memory_and_the_year(tmp_path: Path) -> None:
    arguments = ["--rows", "5e3", "2e4", "--folder", str(tmp_path), "--duckdb"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=True, timeout=600
    )
    for word in (
        "servescope",
        "bare scan",
        "duckdb",
        "M rows/s",
        "MiB peak",
        "peak memory at 6,122,413,756 rows",
    ):
        assert word in done.stdout, done.stdout
    assert "gave up" not in done.stderr
    assert not tmp_path.exists()
