"""The study's verdict on eviction, put to made traces: `python benchmarks/study_eviction.py [--out DIR]`.

The study finds that FIFO and LRU match or beat ARC, SIEVE and GDSF. Traces in the shape of its two windows
are made (`make_sessions.py`), sessions rebuilt by its rule, and its policies replayed at its ten shares of
the working set with its credit (the whole prompt). For each rival and size it is asked whether FIFO, and
whether LRU, is better (+), tied (=: 0 within the bootstrap interval over users) or worse (-) in token hit
ratio. DIR/eviction_curves.csv keeps every point with the seed.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sweep import SEED, made, shares_of, swept

import servescope as ss
from servescope.cache.choice import parse_choices
from servescope.cache.compare import Interval, intervals
from servescope.cache.objects import object_workload

if TYPE_CHECKING:
    from servescope.cache.sweep_tables import Swept

SIMPLE = ("fifo", "lru")
RIVALS = ("arc", "sieve", "gdsf", "s3fifo", "lhd", "lrb")
BETTER, TIED, WORSE = "+=-"
COLUMNS = (
    "workload", "rows", "seed", "policy", "capacity_share", "capacity_tokens", "request_hit_ratio",
    "token_hit_ratio",
)  # fmt: skip


def verdicts(done: Swept, rivals: list[str], resamples: int) -> dict[tuple[str, str], list[str]]:
    """(simple policy, rival) -> how it stands, by size: BETTER, TIED or WORSE in token hit ratio."""
    names = [choice.text for choice in done.choices]
    sizes = range(len(done.sizes))
    hits = np.stack([done.of(place, size).totals[1] for place in range(len(names)) for size in sizes])
    duels = [(simple, rival) for simple in SIMPLE for rival in rivals]
    pairs = [
        (names.index(simple) * len(sizes) + size, names.index(rival) * len(sizes) + size)
        for simple, rival in duels
        for size in sizes
    ]
    bases = done.workload.bases["input_tokens"]
    found = iter(intervals(hits, bases, pairs, seed=SEED, resamples=resamples))
    return {duel: [_verdict(next(found)) for _ in sizes] for duel in duels}


def _verdict(one: Interval) -> str:
    if one.tie is not False or one.difference is None:
        return TIED
    return BETTER if one.difference > 0 else WORSE


def points(preset: str, done: Swept) -> list[list[object]]:
    """Every cell as a row of the file."""
    rows = []
    for place, choice in enumerate(done.choices):
        for size, at in enumerate(done.sizes):
            hits, tokens = done.of(place, size).totals.sum(axis=1).tolist()
            requests, whole = (int(done.workload.bases[name].sum()) for name in ("requests", "input_tokens"))
            share = at.texts[0]
            own = [preset, done.workload.rows, SEED, choice.text, share, at.tokens]
            rows.append([*own, f"{hits / requests:.6f}", f"{tokens / whole:.6f}"])
    return rows


def put(preset: str, done: Swept, resamples: int) -> None:
    """Print the verdicts of one workload."""
    shares = " ".join(size.texts[0] for size in done.sizes)
    print(
        f"\n{preset}: {done.workload.rows:,} requests, {done.workload.requests.known:,} sessions, seed {SEED}"
    )
    print(f"\n| | against | {shares} |\n|---|---|---|")
    names = [choice.text for choice in done.choices]
    found = verdicts(done, [name for name in RIVALS if name in names], resamples)
    for (simple, rival), marks in found.items():
        print(f"| {simple} | {rival} | {' '.join(marks)} |")
    failing = [f"{simple} against {rival}" for (simple, rival), marks in found.items() if WORSE in marks]
    print("\nIt holds everywhere." if not failing else f"\nIt does not hold for {', '.join(failing)}.")


def main() -> None:
    """Make, replay, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--presets", nargs="+", default=["minimax", "deepseek"])
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="where made traces are kept")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    choices = parse_choices([",".join(SIMPLE), asked.rivals, "belady"])[0]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for preset in asked.presets:
            path = made(asked.folder or Path(temporary), asked.rows, preset)
            work = object_workload(ss.read(path), credit="prompt")
            done = swept(work, choices, shares_of(work))
            put(preset, done, asked.resamples)
            rows += points(preset, done)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        with (asked.out / "eviction_curves.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
