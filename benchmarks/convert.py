"""Converting a 300 MB Bailian-format file, beside DuckDB reading it into a table.

`python benchmarks/convert.py [--rows 270000] [--runs 3]`: both in turn, each in a process of its own;
prints MB/s of source text, the ratio and the peak memory. Goals: 40 MB/s, under 2 GiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from make_bailian import make

GOAL_MB_PER_S = 40
GOAL_PEAK_BYTES = 2 << 30
COLUMNS = (
    "{chat_id: 'BIGINT', parent_chat_id: 'BIGINT', timestamp: 'DOUBLE', input_length: 'INTEGER', "
    "output_length: 'INTEGER', type: 'VARCHAR', turn: 'INTEGER', hash_ids: 'UBIGINT[]'}"
)


@dataclass(frozen=True)
class Run:
    """One finished child process: wall time in seconds, peak resident memory in bytes."""

    seconds: float
    peak_bytes: int


def timed(command: list[str]) -> Run:
    """Run `command` to its end. Exits where it fails."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{command[0]} failed with exit code {child.returncode}")
    return Run(time.perf_counter() - begin, usage.ru_maxrss * 1024)


def servescope(source: Path, folder: Path) -> list[str]:
    """The command line of our conversion."""
    call = "from servescope.cli import main; main()"
    return [sys.executable, "-c", call, "convert", str(source), "-o", str(folder / "out.parquet")]


def duckdb(source: Path, folder: Path) -> list[str]:
    """The command line of DuckDB's reading of the same columns into a table on disk."""
    base = folder / "out.duckdb"
    rows = f"read_json('{source}', format='newline_delimited', columns={COLUMNS})"
    sql = f"CREATE TABLE t AS SELECT * FROM {rows}"
    base.unlink(missing_ok=True)
    return [sys.executable, "-c", f"import duckdb; duckdb.connect({str(base)!r}).execute({sql!r})"]


def compare(rows: int, runs: int, folder: Path) -> dict[str, list[Run]]:
    """Make the file, run both `runs` times in turn, print the table."""
    source = folder / "trace.jsonl"
    make(source, rows)
    megabytes = source.stat().st_size / 1e6
    small = folder / "small.jsonl"
    make(small, 100)
    compiling = timed(servescope(small, folder))
    found: dict[str, list[Run]] = {"servescope": [], "duckdb": []}
    for _ in range(runs):
        found["servescope"].append(timed(servescope(source, folder)))
        found["duckdb"].append(timed(duckdb(source, folder)))
    print(f"{rows:,} rows, {megabytes:,.0f} MB; first call, with compiling: {compiling.seconds:.1f} s, apart")
    speed = {name: megabytes / median(run.seconds for run in done) for name, done in found.items()}
    for name, done in found.items():
        peak = max(run.peak_bytes for run in done) / (1 << 20)
        seconds = ", ".join(f"{run.seconds:.2f}" for run in done)
        print(f"{name:<11} {speed[name]:7.1f} MB/s (median of {seconds} s)  peak {peak:,.0f} MiB")
    print(f"servescope / duckdb: {speed['servescope'] / speed['duckdb']:.2f}")
    return found


def main() -> None:
    """Run the comparison; exit 1 where a goal is missed at full size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=270_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="servescope-bench-") as folder:
        found = compare(args.rows, args.runs, Path(folder))
        megabytes = (Path(folder) / "trace.jsonl").stat().st_size / 1e6
    ours = found["servescope"]
    slow = megabytes / median(run.seconds for run in ours) < GOAL_MB_PER_S
    if args.rows >= 270_000 and (slow or max(run.peak_bytes for run in ours) > GOAL_PEAK_BYTES):
        sys.exit(f"goal missed: {GOAL_MB_PER_S} MB/s and {GOAL_PEAK_BYTES >> 30} GiB")


if __name__ == "__main__":
    main()
