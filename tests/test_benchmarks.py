"""The benchmarks run at a small size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_convert_reports_speed_ratio_and_memory() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "convert.py"), "--rows", "300", "--runs", "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("300 rows, ")
    assert lines[1].startswith("servescope") and "MB/s" in lines[1] and "MiB" in lines[1]
    assert lines[2].startswith("duckdb") and "MB/s" in lines[2]
    assert lines[3].startswith("servescope / duckdb: ")


def test_made_file_reuses_about_sixty_percent_of_its_blocks() -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import make_bailian
    finally:
        sys.path.remove(str(BENCHMARKS))
    seen: set[int] = set()
    references = again = 0
    for row in make_bailian.rows(20_000, seed=10):
        ids = row["hash_ids"]
        references += len(ids)
        again += sum(block in seen for block in ids)
        seen.update(ids)
    assert 0.5 < again / references < 0.65
    assert (
        references / 20_000 * 10 > 900
    )  # bytes a row: ids of nine digits and more make 300 MB of 270,000 rows
