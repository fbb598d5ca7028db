"""The benchmark of block policies runs at a small size, and both sides find the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.slow
def test_block_policies_reports_ratios_and_the_panel() -> None:
    pytest.importorskip("kvcache_sim")
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "block_policies.py"), "--rows", "3000", "--panel-rows", "500"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "HITS DIFFER" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3,000 requests, ")
    assert any(line.startswith("the whole LRU curve, ") for line in lines)
    assert lines[-1].startswith("all 90 cells on two threads: ")
