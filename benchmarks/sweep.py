"""A sweep of session caches: `python benchmarks/sweep.py [--rows N] [--preset NAME] [--lrb] [--folder DIR]`.

A trace in the shape of a window of the Chutes study is made (`make_sessions.py`, as the platform logs it: no
sessions), then measured with two threads, apart: reading and rebuilding sessions; 8 policies x 10 sizes; the
intervals of all differences; LRU's whole curve from reuse distances. `--lrb` adds the learned policy, at one
size. Kernels are compiled before. On a busy machine CPU time is the figure to trust: half of it is what two
free cores would take.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import servescope as ss
from servescope.cache.capacity import Size, parse_capacities, resolve
from servescope.cache.choice import Choice, parse_choices
from servescope.cache.object_curve import lru_curve
from servescope.cache.objects import ObjectWorkload, object_workload
from servescope.cache.simulate import prepare
from servescope.cache.study import STUDIES
from servescope.cache.sweep import Cell, sweep
from servescope.cache.sweep_tables import Swept, differences_table
from views import child

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
POLICIES = "fifo,lru,clock,sieve,s3fifo,arc,slru,gdsf"
THREADS, SEED = 2, 10
Found = TypeVar("Found")


def timed(what: str, work: Callable[[], Found], cells: int = 1) -> Found:
    """What the work returns; prints wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = f", {cpu / cells:.2f} s CPU a cell" if cells > 1 else ""
    print(f"{what:<44}{wall:8.1f} s wall {cpu:8.1f} s CPU{each}", flush=True)
    return found


def made(folder: Path, rows: int, preset: str) -> Path:
    """The trace in the folder, unless it is there."""
    path = folder / f"{preset}-{rows}.parquet"
    if not path.exists():
        own = ("--rows", str(rows), "--preset", preset, "--form", "chutes")
        print(child(sys.executable, str(HERE / "make_sessions.py"), str(path), *own).output.strip())
    return path


def shares_of(workload: ObjectWorkload) -> list[Size]:
    """The study's ten capacities of this workload."""
    shares = parse_capacities(STUDIES["chutes"].shares)
    return resolve(shares, unit="session", whole=workload.whole)[0]


def swept(workload: ObjectWorkload, choices: list[Choice], sizes: list[Size]) -> Swept:
    """All cells, by two threads."""
    cells = [Cell(0, choice, size) for choice in choices for size in sizes]
    counted = tuple(sweep([workload], cells, seed=SEED, threads=THREADS))
    return Swept(workload, tuple(choices), tuple(sizes), counted, workload.credit, "bound")


def speeds(done: Swept) -> None:
    """Requests a second of each policy, from the columns `seconds`."""
    for place, choice in enumerate(done.choices):
        seconds = [done.of(place, size).seconds for size in range(len(done.sizes))]
        rate = done.workload.rows * len(seconds) / sum(seconds) / 1e6
        print(f"  {choice.text:<10}{sum(seconds):8.1f} s for {len(seconds)} sizes {rate:8.1f} M requests/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4_223_356)
    parser.add_argument("--preset", default="minimax")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--lrb", action="store_true")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    choices = parse_choices([asked.policies])[0]
    with tempfile.TemporaryDirectory() as temporary:
        path = made(asked.folder or Path(temporary), asked.rows, asked.preset)
        timed("compiling", lambda: [prepare(choice) for choice in choices])
        work = timed("reading, rebuilding sessions", lambda: object_workload(ss.read(path), credit="prompt"))
    sizes = shares_of(work)
    print(f"{work.rows:,} requests, {work.requests.known:,} sessions, working set {work.whole:,} tokens")
    cells = len(choices) * len(sizes)
    done = timed(f"{len(choices)} policies x {len(sizes)} sizes", lambda: swept(work, choices, sizes), cells)
    speeds(done)
    timed("intervals of all differences", lambda: differences_table([done], seed=SEED, resamples=1_000))
    timed("LRU's whole curve", lambda: lru_curve(work.requests, work.credits))
    if asked.lrb:
        lrb = parse_choices(["lrb"])[0]
        prepare(lrb[0])
        learnt = timed("lrb at the fifth size", lambda: swept(work, lrb, sizes[4:5]))
        print(f"  {learnt.counted[0].details}")


if __name__ == "__main__":
    main()
