"""The benchmark of object policies runs at a small size and finds equal misses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libcachesim")
BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "object_policies.py"


@pytest.mark.slow
def test_it_reports_speeds_of_both_sides_and_equal_misses() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--rows", "3000", "--runs", "1", "--policy", "fifo", "sieve"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    first, _, _, *rows = done.stdout.splitlines()
    assert first.startswith("3,000 requests, ")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["fifo", "sieve"]
    assert all(row[8] == "yes" and float(row[1]) > 0 and float(row[3]) > 0 for row in cells)
