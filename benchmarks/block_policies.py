"""Caches of prefix blocks: `python benchmarks/block_policies.py [--rows 200e3] [--folder DIR] [--keep]`.

Two made traces in the shape of the Bailian To-C slice, 16-token blocks. On the first (200,000 requests) our
LRU, FIFO and belady_bypass stand beside the compiled core of kvcache-simulator, at one capacity: CPU time of
the replay alone on both sides. Its program reads the trace and lays it into a tree in every run, so a run
with few capacities is taken from one with many. Hits must be equal. Then our whole LRU curve beside its sweep
over the 15 budgets that it has by default, one model's blocks. On the second (43,058 requests, 6 M block
references) all block policies but lmcache run at 1, 5, 10, 25, 50 % of the distinct blocks on two threads.
Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import make_blocks  # noqa: E402

import servescope as ss  # noqa: E402
from servescope.cache.block_curve import lru_curve  # noqa: E402
from servescope.cache.blocks import BlockWorkload, block_workload, prepare  # noqa: E402
from servescope.cache.capacity import Size  # noqa: E402
from servescope.cache.choice import Choice  # noqa: E402
from servescope.cache.policies import BLOCK_POLICIES  # noqa: E402
from servescope.cache.sweep import Cell, sweep  # noqa: E402
from servescope.kv.catalogue import bytes_per_token, model_named  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

THEIRS = {"lru": "lru", "fifo": "fifo", "optimal": "belady_bypass"}
SHARES = (1, 5, 10, 25, 50)  # percent of the distinct blocks
BUDGETS_GIB = [1 << power for power in range(15)]  # what kvcache-simulator sweeps by default
MODEL = "minimax-m2.5"
TIMES = {"lru": 4, "fifo": 100, "optimal": 16}  # simulations in one run of its core, beside reading
HIT_TOKENS = 1  # of `BlockWorkload.measures`


@dataclass(frozen=True)
class Core:
    """The compiled core of kvcache-simulator and a trace in its form."""

    program: Path
    arguments: list[str]

    def run(self, policies: Sequence[str], capacities: Sequence[int]) -> tuple[float, list[dict[str, Any]]]:
        """CPU seconds of one run, and what it found at each capacity."""
        lists = ["--policies", ",".join(policies), "--capacities", ",".join(map(str, capacities))]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [str(self.program), "--policy", "batch", *self.arguments, *lists], capture_output=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return spent, json.loads(done.stdout)["points"]

    def simulation(self, policy: str, capacity: int) -> tuple[float, dict[str, Any]]:
        """CPU seconds of one simulation, reading and tree building left out, and what it found."""
        one, points = self.run([policy], [capacity])
        many, _ = self.run([policy], [capacity] * (1 + TIMES[policy]))
        return (many - one) / TIMES[policy], points[0][policy]


def core_of(made: BlockWorkload, folder: Path) -> Core:
    """Write the prompts as its program reads them; nodes serve as block ids."""
    from kvcache_sim.cpp_backend import ensure_cpp_simulator

    prompts = made.prompts
    tokens = np.full(len(prompts.nodes), prompts.block_tokens, np.uint16)
    filled = np.diff(prompts.offsets) > 0
    tokens[prompts.offsets[1:][filled] - 1] = prompts.tails[filled]
    arrays = {
        "--ids": prompts.nodes.astype(np.uint32),
        "--tokens": tokens,
        "--request-ends": prompts.offsets[1:].astype(np.uint32),
    }
    arguments = ["--request-count", str(made.rows), "--total-blocks", str(len(prompts.nodes))]
    arguments += ["--warmup-requests", str(made.first)]
    for name, values in arrays.items():
        path = folder / f"core{name}.bin"
        values.tofile(path)
        arguments += [name, str(path)]
    return Core(ensure_cpp_simulator(), arguments)


def size_of(made: BlockWorkload, blocks: int) -> Size:
    """A size in blocks."""
    return Size(blocks * made.prompts.block_tokens, blocks, None, ())


def replayed(made: BlockWorkload, name: str, blocks: int) -> tuple[float, int]:
    """CPU seconds of a replay with its counting, the best of three, and the tokens found."""
    choice = Choice(name, name)
    prepare(choice)
    best, found = np.inf, -1
    for _ in range(3):
        begun = time.thread_time()
        counted = made.replay(choice, size_of(made, blocks), seed=10, tell=lambda requests: None)
        best = min(best, time.thread_time() - begun)
        found = int(counted.totals[HIT_TOKENS].sum())
    return best, found


def beside_the_core(made: BlockWorkload, core: Core) -> None:
    """Print ratios at 10 % of the distinct blocks, and the curve beside the sweep."""
    blocks = made.whole // 10
    print(f"kvcache-simulator's compiled core, {blocks:,} blocks (10 %), CPU time of one replay:")
    for theirs, ours in THEIRS.items():
        spent, found = core.simulation(theirs, blocks)
        mine, hit_tokens = replayed(made, ours, blocks)
        equal = "equal hits" if hit_tokens == found["hitTokens"] else "HITS DIFFER"
        print(f"  {ours:14s} {mine:7.3f} s, its {theirs:8s} {spent:7.3f} s: {spent / mine:5.1f} x, {equal}")
    block_bytes = bytes_per_token(model_named(MODEL)) * made.prompts.block_tokens
    budgets = [int(gib * 2**30 / block_bytes) for gib in BUDGETS_GIB]
    reading, _ = core.run(["fifo"], [])
    swept, _ = core.run(["lru"], budgets)
    lru_curve(made.prompts._replace(offsets=made.prompts.offsets[:2], tails=made.prompts.tails[:1]))
    begun = time.thread_time()
    curve = lru_curve(made.prompts, first=made.first)
    mine = time.thread_time() - begun
    print(f"the whole LRU curve, {_rows(curve):,} capacities: {mine:.2f} s of CPU time")
    print(f"  its sweep over {len(budgets)} budgets of {MODEL}, LRU alone, reading left out: ", end="")
    print(f"{swept - reading:.2f} s, {(swept - reading) / mine:.0f} x")


def _rows(curve: Any) -> int:
    return int((curve.table() if hasattr(curve, "table") else curve).data.num_rows)


def panel(made: BlockWorkload) -> None:
    """Print the times of every policy, and of all together on two threads."""
    choices = [Choice(name, name) for name in BLOCK_POLICIES if name != "lmcache"]
    for choice in choices:
        prepare(choice)
    sizes = [size_of(made, made.whole * share // 100) for share in SHARES]
    cells = [Cell(0, choice, size) for choice in choices for size in sizes]
    begun = time.perf_counter()
    found = list(sweep([made], cells, seed=10, threads=2))
    wall = time.perf_counter() - begun
    print(
        f"{len(choices)} policies at {', '.join(f'{share} %' for share in SHARES)}, seconds of each replay:"
    )
    for at, choice in enumerate(choices):
        row = found[at * len(sizes) : (at + 1) * len(sizes)]
        times = " ".join(f"{counted.seconds:6.2f}" for counted in row)
        print(f"  {choice.name:15s}{times}   sum {sum(counted.seconds for counted in row):6.2f}")
    print(f"all {len(cells)} cells on two threads: {wall:.1f} s")


def trace_of(folder: Path, name: str, rows: int, scale: float) -> BlockWorkload:
    """Make and read a trace, the last half counted."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        shape = make_blocks.PRESETS["to-c"]
        make_blocks.make(path, make_blocks.replace(shape, rows=rows, scale=scale))
    made, _ = block_workload(ss.read(path), warmup=0.5)
    print(f"{made.rows:,} requests, {len(made.prompts.nodes):,} block references, {made.whole:,} distinct")
    return made


def main() -> None:
    """Parse the options and measure."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=float, default=200e3, help="requests of the first trace")
    options.add_argument("--panel-rows", type=float, default=43_058, help="requests of the second")
    options.add_argument("--folder", type=Path)
    options.add_argument("--keep", action="store_true", help="leave the made files")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="servescope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made = trace_of(folder, f"blocks-{int(given.rows)}", int(given.rows), 4.0)
        if shutil.which("c++"):
            beside_the_core(made, core_of(made, folder))
        del made
        panel(trace_of(folder, f"panel-{int(given.panel_rows)}", int(given.panel_rows), 1.0))
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
