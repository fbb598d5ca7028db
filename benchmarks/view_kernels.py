"""Views over arrays: rows a second of one core, block references a second, first-use compile time.

`python benchmarks/view_kernels.py [--rows 2000000] [--prompts 50000]`: seeded made-up rows and prompts that
grow turn by turn. Goals: 2 M rows/s a core for the four load tables, 10 M block references/s.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

os.environ["SERVESCOPE_CACHE_DIR"] = tempfile.mkdtemp(prefix="servescope-bench-")  # compile anew

import numpy as np

from servescope.arrays import Columns
from servescope.ledger import Ledger
from servescope.trace import Origin, Trace, TraceMeta
from servescope.views import run_views

LOAD = ("load_hour", "model_day", "value_hist", "month_shape")
BLOCKS = ("block_reuse", "reuse_ceiling", "hit_rates", "reuse_position")
GROWTH = 60  # new blocks of a turn, on average


def trace_of(values: dict[str, Any], texts: dict[str, list[str]], **blocks: Any) -> Trace:
    """A trace of these columns."""
    rows = len(values["arrival_us"])
    held = Columns(
        rows, {**values, "request_id": np.arange(rows), "source_row": np.arange(rows)}, texts, **blocks
    )
    meta = TraceMeta("made", [], [], Origin("nominal"), held.present(), Ledger(rows, rows), 16, True)
    return Trace(meta, held.parts())


def load_trace(rows: int) -> Trace:
    """Thirty days of requests to 1,000 models with all numeric columns."""
    rng = np.random.default_rng(10)
    arrival = np.sort(rng.integers(0, 30 * 86_400_000_000, rows))
    seconds = rng.lognormal(1, 1, rows)
    values = {
        "arrival_us": arrival - arrival[0],
        "endpoint": rng.integers(-1, 5, rows).astype(np.int32),
        "model": rng.zipf(1.5, rows).clip(0, 999).astype(np.int32),
        "input_tokens": rng.lognormal(7, 1.5, rows).astype(np.int32),
        "output_tokens": rng.lognormal(5, 1.5, rows).astype(np.int32),
        "cached_tokens": rng.integers(0, 1_000, rows).astype(np.int32),
        "ttft_s": seconds * rng.random(rows),
        "completed_us": arrival - arrival[0] + (seconds * 1e6).astype(np.int64),
    }
    endpoints = ["chat", "chat_stream", "completion", "completion_stream", "embed"]
    return trace_of(values, {"endpoint": endpoints, "model": [f"m{i}" for i in range(1_000)]})


def block_trace(prompts: int) -> Trace:
    """Conversations of about two turns, each prompt its parent's and new blocks."""
    rng = np.random.default_rng(10)
    lists: list[np.ndarray] = []
    session = np.arange(prompts)
    fresh = 0
    for i in range(prompts):
        new = np.arange(fresh, fresh + rng.integers(1, 2 * GROWTH), dtype=np.uint64)
        fresh += len(new)
        parent = int(rng.integers(max(0, i - 500), i)) if i and rng.random() < 0.5 else -1
        session[i] = session[parent] if parent >= 0 else i
        lists.append(np.concatenate([lists[parent], new]) if parent >= 0 else new)
    lengths = np.array([len(blocks) for blocks in lists])
    values = {
        "arrival_us": np.arange(prompts) * 50_000,
        "request_type": (session % 4).astype(np.int32),
        "session_id": session,
        "input_tokens": (lengths * 16).astype(np.int32),
    }
    offsets = np.append(0, np.cumsum(lengths))
    null = np.zeros(prompts, np.bool_)
    return trace_of(
        values,
        {"request_type": list("abcd")},
        block_offsets=offsets,
        block_values=np.concatenate(lists),
        block_null=null,
    )


def measure(trace: Trace, names: tuple[str, ...], count: int, what: str) -> None:
    """Print wall and CPU rates of the second run, and what the first one took more."""
    seconds = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        run_views(trace, names, threads=1)
        seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    first, (wall_s, cpu_s) = seconds[0][1] - seconds[1][1], seconds[1]
    rates = f"{count / wall_s / 1e6:.1f} M {what}/s wall, {count / cpu_s / 1e6:.1f} M a core"
    print(f"{', '.join(names)}: {rates}; compiling {first:.1f} s")


def main() -> None:
    """Measure both kinds of tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--prompts", type=int, default=50_000)
    given = options.parse_args()
    measure(load_trace(given.rows), LOAD, given.rows, "rows")
    blocks = block_trace(given.prompts)
    references = sum(len(batch.block_values) for batch in blocks.batches(["block_ids"]))
    measure(blocks, BLOCKS, references, "block references")


if __name__ == "__main__":
    main()
