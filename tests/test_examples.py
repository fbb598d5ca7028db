"""The examples run."""

from __future__ import annotations

import json
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


def test_own_policies_in_a_sweep(tmp_path: Path) -> None:
    trace = tmp_path / "objects.csv"
    lines = [f"{time},s{time * time % 11 + time % 3},{5 + time * time % 11}" for time in range(200)]
    trace.write_text("t,object_id,size_tokens\n" + "\n".join(lines) + "\n")
    names = [f"{EXAMPLES}/my_policy.py:LRU2", f"{EXAMPLES}/my_numba_policy.py:largest_first:patience=3"]
    reading = ("--map", "arrival=t", "--map", "session_id=object_id", "--map", "input_tokens=size_tokens")
    call = (sys.executable, "-c", "from servescope.cli import main; main()")
    asked = ("--unit", "session", "--policy", ",".join(["lru", *names]), "--capacity", "40tokens")
    done = subprocess.run(
        [*call, "cache", str(trace), *reading, *asked, "--time-unit", "s", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    rows = json.loads(done.stdout)["tables"]["cache"]
    assert [row["policy"] for row in rows] == ["lru", names[0], names[1]]
    assert len({row["request_hits"] for row in rows}) == 3
