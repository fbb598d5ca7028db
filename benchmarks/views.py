"""A year in one scan: `python benchmarks/views.py [--rows 10e6 50e6] [--folder DIR] [--duckdb]`.

For each size a Chutes-format file is made (9,000 models, 300,000 users, 366 days), then `servescope views`
makes all tables with two threads, in a process of its own, end to end: rows a second, CPU time a row, peak
memory. Beside it: a bare scan (pyarrow decodes the same columns, two threads) and DuckDB with two threads,
one query a figure (`year_queries.py`), its seconds added up. From two sizes on, time and memory are
extrapolated to the study's 6.12 billion rows. Kernels are compiled before, on a small file; the files are
removed at the end.

On a busy machine CPU time a row is the figure to trust, and ratios of CPU time within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHAPE = ("--models", "9000", "--users", "300000", "--days", "366")
SMALL_ROWS = 400_000
YEAR_ROWS = 6_122_413_756
THREADS = 2
COLUMNS = (
    "function_name", "chute_id", "user_id", "rehash_round", "instance_id", "started_at", "completed_at",
    "it", "ot", "ct", "ttft",
)  # fmt: skip
TEXTS = ("function_name", "chute_id", "user_id", "instance_id")


@dataclass(frozen=True)
class Cost:
    """What a child process cost: wall and CPU seconds, peak memory in bytes, what it printed."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str

    def line(self, name: str, rows: int) -> str:
        """One line of the report."""
        speed = f"{rows / self.wall_s / 1e6:7.2f} M rows/s {self.cpu_s / rows * 1e9:7.0f} ns CPU a row"
        memory = f"{self.peak_bytes / 2**20:8,.0f} MiB peak"
        return f"  {name:<12}{self.wall_s:8.1f} s wall {self.cpu_s:8.1f} s CPU {speed} {memory}"


def child(*command: str) -> Cost:
    """Run a command to its end. Raises SystemExit where it fails."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
        output.seek(0)
        unit = 1 if sys.platform == "darwin" else 1024
        text = output.read()
    return Cost(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * unit, text)


def make(folder: Path, rows: int) -> Path:
    """A trace of that many rows in the folder, unless it is there."""
    path = folder / f"year-{rows}.parquet"
    if not path.exists():
        print(
            child(sys.executable, str(HERE / "make_trace.py"), str(path), "--rows", str(rows), *SHAPE).output
        )
    return path


def views(path: Path, folder: Path) -> Cost:
    """`servescope views` with the side tables."""
    sides = (
        "--cohorts",
        str(path.with_suffix(".cohorts.csv")),
        "--model-names",
        str(path.with_suffix(".names.csv")),
    )
    run = "from servescope.cli import main; main()"
    out = ("--threads", str(THREADS), "-o", str(folder / "out"), "--no-figures", "--json")
    return child(sys.executable, "-c", run, "views", str(path), *sides, *out)


def bare_scan(path: Path) -> None:
    """Decode the columns that the views read, two row groups at a time."""
    import pyarrow.parquet as pq

    metadata = pq.ParquetFile(path).metadata

    def read(group: int) -> int:
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=list(TEXTS)) as file:
            return file.read_row_group(group, columns=list(COLUMNS), use_threads=False).num_rows

    with ThreadPoolExecutor(THREADS) as pool:
        print(sum(pool.map(read, range(metadata.num_row_groups))))


def queries(path: Path) -> None:
    """Print seconds of every query as JSON."""
    import duckdb
    from year_queries import QUERIES, SETUP

    seconds: dict[str, float] = {}
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {THREADS}; set memory_limit = '8GB'")
        connection.execute(f"set temp_directory = '{path}.tmp'; set max_temp_directory_size = '20GB'")
        connection.execute(f"create view f as select * from read_parquet('{path}')")
        connection.execute(f"create view cohorts as from read_csv('{path.with_suffix('.cohorts.csv')}')")
        for statement in SETUP:
            connection.execute(statement)
        for name, query in QUERIES.items():
            begun = time.perf_counter()
            note = ""
            try:
                connection.execute(f"create or replace table made as {query}")
            except duckdb.Error as error:  # it counts with the time that it took until then
                note = f", gave up: {str(error).splitlines()[0]}"
            seconds[name] = round(time.perf_counter() - begun, 3)
            print(f"    {name}: {seconds[name]:.1f} s{note}", file=sys.stderr)
    print(json.dumps(seconds))


def measure(folder: Path, rows: int, duckdb: bool) -> Cost:
    """Make, scan and compare one size; prints as it goes."""
    path = make(folder, rows)
    ours = views(path, folder)
    found = json.loads(ours.output)
    timing: dict[str, Any] = found["tables"]["timing"][0]
    bare = child(sys.executable, __file__, "--bare", str(path))
    print(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
    print(ours.line("servescope", rows))
    print(f"    the scan alone: {timing['scan_s']:.1f} s, {timing['scan_rows_per_s'] / 1e6:.2f} M rows/s")
    print(bare.line("bare scan", rows))
    wall, cpu = ours.wall_s / bare.wall_s, ours.cpu_s / bare.cpu_s
    print(f"    servescope takes {wall:.1f} x its wall and {cpu:.1f} x its CPU time (goal: at most 5 x)")
    if duckdb:
        asked = child(sys.executable, __file__, "--queries", str(path))
        seconds = json.loads(asked.output)
        total = sum(seconds.values())
        print(asked.line("duckdb", rows))
        print(f"    {len(seconds)} figures in {total:.1f} s: {total / ours.wall_s:.1f} x servescope's time")
        print(f"    for all its tables, {asked.cpu_s / ours.cpu_s:.1f} x its CPU time (goal: at least 10 x)")
    return ours


def extrapolate(costs: dict[int, Cost]) -> None:
    """The year from the two largest sizes: what a further row costs, and what is fixed.

    Time: a row costs the same wherever it stands, but for the caches that tables of users and pairs outgrow,
    which they have at these sizes. So a straight line through both sizes is what to expect. Memory follows
    users, models and pairs, which stop growing before the year is over: there the line is an upper bound.
    """
    (less, small), (more, large) = sorted(costs.items())[-2:]
    for name, a, b, unit in (
        ("wall", small.wall_s, large.wall_s, 3600.0),
        ("CPU", small.cpu_s, large.cpu_s, 3600.0),
        ("peak memory", small.peak_bytes, large.peak_bytes, 2.0**30),
    ):
        slope = (b - a) / (more - less)
        at_year = (b + slope * (YEAR_ROWS - more)) / unit
        kind = "GiB" if unit == 2.0**30 else "h"
        print(
            f"{name} at {YEAR_ROWS:,} rows: {at_year:.2f} {kind} (a further million rows: {slope * 1e6:,.3g})"
        )


def main() -> None:
    """Parse the options and measure."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rows", type=float, nargs="+", default=[10e6])
    options.add_argument("--folder", type=Path)
    options.add_argument("--duckdb", action="store_true")
    options.add_argument("--keep", action="store_true", help="leave the made files")
    options.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--queries", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.bare:
        bare_scan(given.bare)
        return
    if given.queries:
        queries(given.queries)
        return
    folder = given.folder or Path(tempfile.mkdtemp(prefix="servescope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        first = views(make(folder, SMALL_ROWS), folder)
        print(f"first run of {SMALL_ROWS:,} rows, kernels compiled or loaded: {first.wall_s:.1f} s")
        costs = {int(rows): measure(folder, int(rows), given.duckdb) for rows in given.rows}
        if len(costs) > 1:
            extrapolate(costs)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
