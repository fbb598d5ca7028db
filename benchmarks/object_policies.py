"""How fast does each policy replay a trace of sessions on one core, beside libCacheSim?

Both read the same 5 million requests: libCacheSim an oracleGeneral file with its own C loop, with its
default hash table and with the fastest of several sizes, servescope its arrays. Sizes are fixed (each
object keeps its first), so the misses must be equal; `growing` is servescope with the sizes as they are.
Times are of one thread's CPU, the best of runs in turn; `first call` compiles everything in a new process.

    python benchmarks/object_policies.py [--rows 5e6] [--capacity 10] [--popular 0.5] [--runs 3]
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope.cache.policies import OBJECT_POLICIES
from servescope.cache.requests import Requests, requests_of
from servescope.exports.oracle_general import RECORD

try:
    import libcachesim as library  # type: ignore[import-untyped]
except ImportError:
    sys.exit("the other side of this benchmark is missing: pip install libcachesim==0.3.5")

Ints = npt.NDArray[np.int64]
THEIRS = {
    "fifo": "FIFO", "lru": "LRU", "sieve": "Sieve", "s3fifo": "S3FIFO", "arc": "ARC",
    "clock": "Clock", "slru": "SLRU", "lfu": "LFU", "gdsf": "GDSF",
}  # fmt: skip
PARAMETERS = {"s3fifo": {"threshold": 2}}  # what the library has
DEFAULT_POWER = 24
FIRST_CALL = """
import importlib, sys, time
import numpy as np
from servescope.cache.requests import requests_of
requests = requests_of(np.zeros(9, np.int32), np.ones(9, np.int64), np.zeros(9, np.int64))
start = time.perf_counter(), time.process_time()
policy = importlib.import_module(sys.argv[1])
policy.run(policy.new(requests, 100, 10), requests, np.zeros(9, np.uint8), 0, 9)
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


class Row(NamedTuple):
    """What one policy needed: M requests/s and misses of each side, seconds of the first call."""

    ours: float
    growing: float
    default: float
    tuned: float
    misses: tuple[int, int]
    first_s: tuple[float, float]


def sessions(random: np.random.Generator, rows: int, mean_turns: float) -> tuple[Ints, Ints, Ints]:
    """Names, sizes and times of sessions of geometric length that grow and pause for minutes."""
    turns = random.geometric(1 / mean_turns, int(rows / mean_turns))
    ends = np.cumsum(turns)
    first = ends - turns
    total = int(ends[-1])
    opening = np.zeros(total, bool)
    opening[first] = True
    added = np.where(opening, random.lognormal(7.5, 1, total), random.lognormal(6, 1, total)).astype(np.int64)
    waited = np.where(opening, 0, random.lognormal(5, 2, total))
    sizes, times = np.cumsum(added + 1), np.cumsum(waited)
    sizes -= np.repeat(sizes[first] - added[first] - 1, turns)
    times += np.repeat(random.uniform(0, 1e6, len(turns)) - times[first], turns)
    return np.repeat(np.arange(len(turns)), turns), sizes, times.astype(np.int64)


def trace(rows: int, popular: float) -> Requests:
    """Requests of sessions, and a share `popular` of requests for objects of popularity 1 / rank."""
    random = np.random.default_rng(10)
    often = int(rows * popular)
    names, sizes, times = sessions(random, int((rows - often) * 1.02) + 100, mean_turns=4)
    choices = max(rows * 2 // 5, 2)
    ranks = np.exp(random.random(often) * np.log(choices)).astype(np.int64) - 1
    names = np.concatenate([names, len(names) + random.permutation(choices)[ranks]])
    sizes = np.concatenate([sizes, 1_000 + ranks * 7_919 % 9_000])
    times = np.concatenate([times, random.integers(0, 1_000_000, often)])
    kept = np.argsort(times, kind="stable")[:rows]
    _, first, codes = np.unique(names[kept], return_index=True, return_inverse=True)
    dense = np.empty(len(first), np.int32)
    dense[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return requests_of(dense[codes], sizes[kept], times[kept] * 1_000_000)


def with_first_sizes(requests: Requests) -> Requests:
    """The same requests; every object keeps its first size."""
    first = np.unique(requests.objects, return_index=True)[1]
    return requests._replace(sizes=requests.sizes[first][requests.objects])


def write(requests: Requests, path: Path) -> None:
    """The requests as an oracleGeneral file."""
    records = np.zeros(len(requests.objects), RECORD)
    records["time"] = requests.arrival_us // 1_000_000
    records["object"] = requests.objects.astype(np.uint64) + np.uint64(1)
    records["size"], records["next"] = requests.sizes, -1
    records.tofile(path)


def replay(policy: str, requests: Requests, capacity: int) -> tuple[float, int]:
    """CPU seconds and misses of servescope."""
    module: Any = importlib.import_module(OBJECT_POLICIES[policy])
    state = module.new(requests, capacity, 10, **PARAMETERS.get(policy, {}))
    hits = np.zeros(len(requests.objects), np.uint8)
    start = time.thread_time()
    module.run(state, requests, hits, 0, len(hits))
    return time.thread_time() - start, len(hits) - int(hits.sum())


def replay_theirs(policy: str, path: Path, rows: int, capacity: int, power: int) -> tuple[float, int]:
    """CPU seconds and misses of libCacheSim with a hash table of 2^power buckets."""
    reader = library.TraceReader(str(path), library.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(library, THEIRS[policy])(capacity, hashpower=power)
    start = time.thread_time()
    ratio, _ = cache.process_trace(reader)
    return time.thread_time() - start, round(ratio * rows)


def first_call(policy: str) -> tuple[float, float]:
    """Seconds, and CPU seconds, of importing and calling a policy where nothing is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CALL, OBJECT_POLICIES[policy]],
            env={**os.environ, "SERVESCOPE_CACHE_DIR": folder},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    wall, cpu = done.stdout.split()
    return float(wall), float(cpu)


def measured(policy: str, fixed: Requests, growing: Requests, path: Path, capacity: int, runs: int) -> Row:
    """One row of the table."""
    rows = len(fixed.objects)
    near = max(fixed.known.bit_length() - 1, 4)
    replay(policy, fixed._replace(objects=fixed.objects[:9], sizes=fixed.sizes[:9]), capacity)  # compiles
    ours, growth, default, tuned = [], [], [], []
    for _ in range(runs):
        ours.append(replay(policy, fixed, capacity))
        growth.append(replay(policy, growing, capacity))
        default.append(replay_theirs(policy, path, rows, capacity, DEFAULT_POWER))
        tuned += [replay_theirs(policy, path, rows, capacity, power) for power in (near - 2, near, near + 1)]
    speeds = [rows / min(times)[0] / 1e6 for times in (ours, growth, default, tuned)]
    return Row(speeds[0], speeds[1], speeds[2], speeds[3], (ours[0][1], default[0][1]), first_call(policy))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=5e6)
    parser.add_argument("--capacity", type=float, default=10, help="per cent of the sum of first sizes")
    parser.add_argument("--popular", type=float, default=0.5, help="share of requests outside sessions")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policy", nargs="+", choices=THEIRS, default=list(THEIRS))
    given = parser.parse_args()
    growing = trace(int(given.rows), given.popular)
    fixed = with_first_sizes(growing)
    whole = int(fixed.sizes[np.unique(fixed.objects, return_index=True)[1]].sum())
    capacity = int(whole * given.capacity / 100)
    print(f"{len(fixed.objects):,} requests, {fixed.known:,} objects, {capacity:,} tokens; M requests/s")
    print("| policy | ours | growing | theirs | tuned | ratio | tuned | misses | equal | first call | CPU |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fixed.oracleGeneral"
        write(fixed, path)
        for policy in given.policy:
            row = measured(policy, fixed, growing, path, capacity, given.runs)
            print(
                f"| {policy} | {row.ours:.1f} | {row.growing:.1f} | {row.default:.2f} | {row.tuned:.2f} "
                f"| {row.ours / row.default:.1f} | {row.ours / row.tuned:.1f} | {row.misses[0]:,} "
                f"| {'yes' if row.misses[0] == row.misses[1] else f'no: {row.misses[1]:,}'} "
                f"| {row.first_s[0]:.1f} s | {row.first_s[1]:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
