"""The benchmarks of the sweep run at a small size."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


@pytest.mark.slow
def test_the_sweep_tells_times_and_speeds() -> None:
    lines = run("sweep.py", "--rows", "3000", "--policies", "fifo,lru").splitlines()
    assert any(line.startswith("2 policies x 10 sizes") and "s CPU a cell" in line for line in lines)
    assert sum("M requests/s" in line for line in lines) == 2
    assert lines[-1].startswith("LRU's whole curve")


@pytest.mark.slow
def test_the_verdict_has_a_mark_for_every_size_and_keeps_the_curves(tmp_path: Path) -> None:
    own = ("--rows", "3000", "--presets", "minimax", "--rivals", "sieve", "--resamples", "30")
    text = run("study_eviction.py", *own, "--out", str(tmp_path))
    verdicts = [line.split("|") for line in text.splitlines() if line.startswith(("| fifo", "| lru"))]
    assert [(one[1].strip(), one[2].strip()) for one in verdicts] == [("fifo", "sieve"), ("lru", "sieve")]
    assert all(len(one[3].split()) == 10 and set(one[3].split()) <= set("+=-") for one in verdicts)
    assert "hold" in text.splitlines()[-1]
    with (tmp_path / "eviction_curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 10 and {row["seed"] for row in rows} == {"10"}
