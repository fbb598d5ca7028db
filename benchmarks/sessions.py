"""Rebuilding sessions: `python benchmarks/sessions.py [--rows 10e6] [--folder DIR] [--written] [--keep]`.

For each size a Chutes-format file is made (or one that is there is used, by its name), then measured:
the rule's kernel, and the kernel with all that is counted, in CPU time on one core; the same rule in plain
Python on the first rows of the same file, alone and with the reading of its rows; and `servescope sessions`
with two threads in a process of its own, end to end: rows a second, CPU time a row, peak memory. `--written`
also writes the requests with their sessions. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.reference.reconstruction import chains, takes_part  # noqa: E402

import servescope as ss  # noqa: E402
from servescope import schema  # noqa: E402
from servescope.numbering import once  # noqa: E402
from servescope.sessions.eligible import TOKENS, Selection  # noqa: E402
from servescope.sessions.links import SessionOptions  # noqa: E402
from servescope.sessions.rule import LINK_FIELDS, Chains, limits  # noqa: E402
from servescope.sessions.spool import PIECE_ROWS, MemorySpool, buckets_of  # noqa: E402
from servescope.sessions.tally import Tally  # noqa: E402
from views import Cost, child, make  # noqa: E402

THREADS = 2
KERNEL_ROWS = 5_000_000
PLAIN_ROWS = 300_000
WARM_ROWS = 20_000
PLAIN_COLUMNS = (
    "request_id", "arrival_us", "completed_us", "endpoint", "model", "user", "instance", "input_tokens",
    "output_tokens",
)  # fmt: skip


def spool_of(path: Path, most: int) -> tuple[MemorySpool, int]:
    """Records of the first requests of a file that take part, in as many buckets as the command makes."""
    trace = ss.read(path)
    selection = Selection(trace, SessionOptions(), buckets_of(trace.rows))
    spool = MemorySpool([[] for _ in range(selection.buckets)])
    many = 0
    for batch, known in once(trace, selection.columns):
        records, edges = selection.records(batch, known)
        spool.append(records, edges)
        many += len(records)
        if many >= most:
            break
    return spool, many


def kernel_seconds(spool: MemorySpool, counting: bool) -> float:
    """CPU seconds of linking records, a bucket and a piece at a time as the command does."""
    links = np.empty((PIECE_ROWS, LINK_FIELDS), np.int64)
    spent = 0.0
    for bucket in range(len(spool.held)):
        whole, tally = Chains(limits(10, False, None, False)), Tally()
        for _, piece in spool.pieces(bucket):
            begun = time.thread_time()
            found = whole.follow(piece, links)
            if counting:
                tally.add(found, piece[:, TOKENS] >> 32)
            spent += time.thread_time() - begun
    return spent


def plain_seconds(path: Path, most: int) -> tuple[float, float, int]:
    """CPU seconds of reading rows as dicts and of the rule over them, and how many they are."""
    trace = ss.read(path)
    begun = time.thread_time()
    rows = []
    for part in trace.parts:
        table = part.arrow(schema.NAMES).select(PLAIN_COLUMNS)
        rows += [row for row in table.to_pylist() if takes_part(row, set(PLAIN_COLUMNS))]
        if len(rows) >= most:
            break
    del rows[most:]
    read = time.thread_time() - begun
    begun = time.thread_time()
    chains(rows)
    return read, time.thread_time() - begun, len(rows)


def command(path: Path, *more: str) -> Cost:
    """`servescope sessions` in a process of its own."""
    run = "from servescope.cli import main; main()"
    return child(sys.executable, "-c", run, "sessions", str(path), "--threads", str(THREADS), "--json", *more)


def measure(path: Path, rows: int, written: bool, plain: int) -> None:
    """Measure one file; prints as it goes."""
    spool, many = spool_of(path, KERNEL_ROWS)
    alone, counted = (min(kernel_seconds(spool, counting) for _ in range(3)) for counting in (False, True))
    read, rule, plainly = plain_seconds(path, plain)
    print(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB; one core, CPU time:")
    print(f"  kernel          {many / alone / 1e6:8.2f} M requests/s ({many:,} requests)")
    print(f"  and counting    {many / counted / 1e6:8.2f} M requests/s")
    print(f"  plain Python    {plainly / rule / 1e6:8.2f} M requests/s ({plainly:,} requests, rows at hand)")
    ratio = (rule / plainly) / (alone / many)
    print(f"    kernel / plain Python: {ratio:.1f} x; with counting {ratio * alone / counted:.1f} x")
    whole = command(path)
    print(whole.line("sessions", rows))
    print(
        f"    per core {rows / whole.cpu_s / 1e6:.2f} M rows/s; against plain Python with its reading ",
        end="",
    )
    print(f"{(read + rule) / plainly / (whole.cpu_s / rows):.1f} x")
    if written:
        out = path.with_suffix(".sessions.parquet")
        print(command(path, "-o", str(out)).line("and -o", rows))
        out.unlink()


def main() -> None:
    """Parse the options and measure."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rows", type=float, nargs="+", default=[10e6])
    options.add_argument("--plain", type=float, default=PLAIN_ROWS, help="requests for plain Python")
    options.add_argument("--folder", type=Path)
    options.add_argument("--written", action="store_true", help="also with -o")
    options.add_argument("--keep", action="store_true", help="leave the made files")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="servescope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        first = command(make(folder, WARM_ROWS))
        print(f"first run of {WARM_ROWS:,} rows, kernels compiled or loaded: {first.wall_s:.1f} s")
        for rows in given.rows:
            measure(make(folder, int(rows)), int(rows), given.written, int(given.plain))
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
