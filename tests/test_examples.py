"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_report_from_python(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "report_from_python.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "5,635 requests in 7,197 s"
    assert any(line.startswith("search: median input 5,") for line in lines)
    assert lines[-1] == "report-from-python/report.html"
    assert (tmp_path / lines[-1]).stat().st_size > 100_000
