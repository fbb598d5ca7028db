"""Make a typed trace with 16-token block ids: `python benchmarks/make_blocks.py OUT.parquet [--rows N] …`.

Canonical Parquet in the shape of the Qwen-Bailian To-C slice: types with their rates and lengths,
session trees, templates that many sessions share. It streams: memory is that of the chains, whatever the
size. `--preset scale --references 650e6` makes 650 M block references of 140 M distinct blocks. Same
options, same bytes. `servescope export --to bailian` turns it into the source's own format.

Rates, lengths and reuse after the published statistics of the Qwen-Bailian usage traces (Apache 2.0).
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import block_chains as at
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from chains import POOL
from make_sessions import streamed

from servescope import schema
from servescope.arrays import category_array
from servescope.ledger import Ledger
from servescope.trace import Origin, TraceMeta
from servescope.trace_write import write_canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

Ints = npt.NDArray[np.int64]
PART_ROWS = 1 << 14
PART_BLOCKS = 1 << 23  # a part ends here at the latest: 64 MiB of ids
BUSY_S = 300
# the To-C slice climbs from about 3 to 8 requests/s over its two hours
CLIMB = np.linspace(0.45, 1.55, 24)


@dataclass(frozen=True)
class Kind:
    """Requests of one type; pairs are the median and sigma of log-normal draws.

    rate_s           requests/s
    first, new, output, think_s  tokens of a first prompt, of a later message, of an answer; seconds
    again            chance of one more turn after the first, after later ones
    templates        how many there are, and how many blocks each has
    shortened        chance that a follow-up's history was cut down to its template
    fresh_each_turn  a follow-up repeats no history
    """

    name: str
    rate_s: float
    first: tuple[float, float]
    new: tuple[float, float]
    output: tuple[float, float]
    again: tuple[float, float]
    templates: tuple[int, int]
    think_s: tuple[float, float] = (45.0, 1.0)
    shortened: float = 0.02
    fresh_each_turn: bool = False
    most_first: int = 24_000


TO_C = (
    Kind("text", 4.4, (500, 0.85), (240, 1.2), (210, 0.9), (0.21, 0.68), (12, 12), shortened=0.14),
    Kind("search", 1.0, (4_600, 0.55), (250, 1.0), (330, 0.6), (0.3, 0.7), (4, 24)),
    Kind("image", 0.4, (369, 0.35), (40, 0.8), (69, 0.8), (0.3, 0.5), (40, 30), fresh_each_turn=True),
    Kind("file", 0.2, (5_200, 0.6), (200, 1.0), (330, 0.7), (0.3, 0.7), (2, 12)),
)


@dataclass(frozen=True)
class Shape:
    """What is made.

    rows        requests at most; references: block references at least, if the rows suffice
    kinds       request types
    scale       times as many chains: so many times the rates
    rest_s      median time from a session's end to the next one of its chain
    most_tokens a session whose context exceeds it ends
    climb       whether the rate climbs over the first two hours
    seed        of every draw
    """

    rows: int
    references: int = 1 << 62
    kinds: tuple[Kind, ...] = TO_C
    scale: float = 1.0
    rest_s: float = 300.0
    most_tokens: int = 30_000
    climb: bool = True
    seed: int = 10


# longer sessions: 650 M references to 140 M distinct blocks
LONG = tuple(replace(kind, again=(0.75, 0.86)) for kind in TO_C)
PRESETS = {
    "to-c": Shape(43_058),
    "scale": Shape(1 << 40, 650_000_000, LONG, scale=4.0, climb=False),
}


def _pools(kind: Kind, shape: Shape, random: np.random.Generator) -> npt.NDArray[np.int32]:
    def pool(pair: tuple[float, float], most: float) -> npt.NDArray[np.int32]:
        return np.clip(random.lognormal(np.log(pair[0]), pair[1], POOL), 1, most).astype(np.int32)

    count = kind.templates[0]
    weights = 1.0 / np.arange(1, count + 1)
    return np.stack(
        [
            pool(kind.first, min(kind.most_first, shape.most_tokens)),
            pool(kind.new, shape.most_tokens / 8),
            pool(kind.output, shape.most_tokens / 8),
            pool((1e3 * kind.think_s[0], kind.think_s[1]), 7_200_000),
            pool((1e3 * shape.rest_s, 1.0), 7_200_000),
            random.choice(count, POOL, p=weights / weights.sum()).astype(np.int32),
        ]
    )


def _facts(kind: Kind, shape: Shape, first_id: int) -> list[int]:
    chances = [round(x * 2**32) for x in (*kind.again, kind.shortened)]
    return [*chances, kind.templates[1], first_id, int(kind.fresh_each_turn), shape.most_tokens]


def _chains(kind: Kind, shape: Shape, pools: npt.NDArray[np.int32]) -> tuple[int, float]:
    """How many chains keep up the type's rate, and the time of one round of a chain, seconds."""
    turns = 1 + kind.again[0] / (1 - kind.again[1])
    answer = pools[at.OUTPUTS].mean() * 0.012
    cycle = turns * answer + (turns - 1) * pools[at.THINKS_MS].mean() / 1e3 + pools[at.RESTS_MS].mean() / 1e3
    return max(1, round(shape.scale * kind.rate_s * cycle / turns)), float(cycle)


class Maker:
    """Sends the requests of all chains, part after part. Changed by `part`."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.rows, self.references = shape, 0, 0
        random = np.random.default_rng([shape.seed, 2])
        kinds = shape.kinds
        self.pools = np.stack([_pools(kind, shape, random) for kind in kinds])
        ends = np.cumsum([0, *(kind.templates[0] * kind.templates[1] for kind in kinds)])
        self.facts = np.array([_facts(k, shape, int(e)) for k, e in zip(kinds, ends, strict=False)], np.int64)
        self.templates = self.fresh = int(ends[-1])
        counts = [_chains(kind, shape, pools) for kind, pools in zip(kinds, self.pools, strict=True)]
        code = np.repeat(np.arange(len(kinds)), [count for count, _ in counts])
        starts = np.concatenate([random.random(count) * cycle * 1e6 for count, cycle in counts])
        order = np.argsort(starts, kind="stable")
        self.times = starts[order].astype(np.int64)
        self.times -= self.times[0]
        self.chains = np.zeros((len(code), at.CHAIN_FIELDS), np.int64)
        self.chains[:, at.KIND] = code[order]
        self.segments = np.zeros((len(code), at.SEGMENTS, 2), np.int64)
        self.queue = np.arange(len(code), dtype=np.int32)
        self.busy = CLIMB if shape.climb else np.ones(1)
        self.state = np.array([shape.seed], np.uint64)

    def part(self) -> pa.Table:
        """The next rows; none at the end."""
        shape = self.shape
        last = min(self.rows + PART_ROWS, shape.rows)
        out = np.empty((last - self.rows, at.ROW_FIELDS), np.int64)
        offsets, values = np.empty(last - self.rows + 1, np.int64), np.empty(PART_BLOCKS, np.uint64)
        if self.references >= shape.references:
            return self._table(out[:0], offsets[:1] * 0, values[:0])
        count, self.fresh = at.send(
            self.rows, last, self.times, self.queue, self.chains, self.segments, self.pools, self.facts,
            self.busy, BUSY_S * 1_000_000, self.fresh, 1 << 62, self.state, out, offsets, values,
        )  # fmt: skip
        enough = np.searchsorted(offsets[: count + 1], shape.references - self.references)
        count = min(count, int(enough))
        table = self._table(out[:count], offsets[: count + 1], values[: offsets[count]])
        self.rows, self.references = self.rows + count, self.references + int(offsets[count])
        return table

    def _table(self, rows: Ints, offsets: Ints, values: npt.NDArray[np.uint64]) -> pa.Table:
        first, count = self.rows, len(rows)
        bounds = pa.array(offsets.astype(np.int32))
        texts = [kind.name for kind in self.shape.kinds]
        made = {
            "request_id": pa.array(np.arange(first, first + count)),
            "arrival_us": pa.array(rows[:, at.ROW_START_US]),
            "request_type": category_array(rows[:, at.ROW_KIND].astype(np.int32), texts),
            "input_tokens": pa.array(rows[:, at.ROW_TOKENS].astype(np.int32)),
            "output_tokens": pa.array(rows[:, at.ROW_OUTPUT].astype(np.int32)),
            "source_row": pa.array(np.arange(first + 1, first + 1 + count)),
            "session_id": pa.array(rows[:, at.ROW_SESSION]),
            "parent_id": pa.array(rows[:, at.ROW_PARENT], mask=rows[:, at.ROW_PARENT] < 0),
            "turn": pa.array(rows[:, at.ROW_TURN].astype(np.int32)),
            "block_ids": pa.ListArray.from_arrays(bounds, pa.array(values), type=schema.BLOCKS),
        }
        arrays = [made[c.name] if c.name in made else pa.nulls(count, c.arrow) for c in schema.COLUMNS]
        return pa.table(arrays, schema=schema.arrow_schema())


COLUMNS = [
    "request_id", "arrival_us", "request_type", "input_tokens", "output_tokens", "source_row",
    "session_id", "parent_id", "turn", "block_ids",
]  # fmt: skip


def _parts(maker: Maker) -> Iterator[pa.Table]:
    """Parts until none is left; the next one is made while the caller works on the last."""
    with ThreadPoolExecutor(1) as pool:
        coming: Future[pa.Table] = pool.submit(maker.part)
        while (table := coming.result()).num_rows:
            coming = pool.submit(maker.part)
            yield table


def sizes(shape: Shape) -> list[int]:
    """Rows of each part: the trace is made twice, since a trace states its rows before they are written."""
    maker = Maker(shape)
    found = []
    while (table := maker.part()).num_rows:
        found.append(table.num_rows)
    return found


def make(target: Path, shape: Shape) -> Maker:
    """Write the trace; the maker knows what was made."""
    held = sizes(shape)
    rows = sum(held)
    maker = Maker(shape)
    decisions = ["made rows; sessions, parents and turns are those that the rows were made from"]
    meta = TraceMeta(
        "made", [], decisions, Origin("relative"), COLUMNS, Ledger(rows, rows), at.BLOCK_TOKENS, True
    )
    write_canonical(streamed(meta, held, _parts(maker)), target)
    return maker


def main() -> None:
    """Parse the options, make the file, say what and how fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="to-c")
    parser.add_argument("--rows", type=float, help="requests at most")
    parser.add_argument("--references", type=float, help="block references at most")
    parser.add_argument("--scale", type=float, help="times the rates")
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    given = {k: v for k, v in vars(args).items() if k in Shape.__dataclass_fields__ and v is not None}
    for name in {"rows", "references"} & given.keys():
        given[name] = int(given[name])
    began = time.perf_counter()
    maker = make(args.out, replace(PRESETS[args.preset], **given))
    spent = time.perf_counter() - began
    print(
        f"{maker.rows:,} requests, {maker.references:,} block references, about {maker.fresh:,} distinct "
        f"blocks in {spent:.1f} s, {maker.references / spent / 1e6:.1f} M references/s"
    )


if __name__ == "__main__":
    main()
