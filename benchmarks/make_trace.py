"""Make a Chutes-format trace: `python benchmarks/make_trace.py OUT.parquet [--rows N] [--seed N] …`.

`make_trace.py sessions OUT …` and `make_trace.py blocks OUT …` make traces whose sessions are known: see
`make_sessions.py` and `make_blocks.py`.

Beside OUT.parquet stand OUT.cohorts.csv (user_id, rehash_round, release_cohort) and OUT.names.csv
(chute_id, name; some ids have none). Same options, same bytes. Popularity is skewed, hours and days
differ, ids rotate every three nominal months, and there are ties and nulls. Requests come in bursts:
most repeat the user and model of a request shortly before, as in the published trace, where half of all
returns of a user to a model take 0.1 s (about 20 requests) and 80 % take 10 s (about 2,000). Models differ in
how bursty they are, how long their prompts and answers are, and how much of a prompt was cached.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope.files import atomic

GROUP_ROWS = 122_880  # what DuckDB writes
DAY_US = 86_400_000_000
ROUND_STARTS_DAY = np.array([0, 90, 181, 273, 365])  # Jan, Apr, Jul, Oct, Jan of a nominal 1970
MONTH_STARTS_DAY = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365])
ENDPOINTS = ["chat_stream", "chat", "completion", "completion_stream", "embed", "get_models"]
ENDPOINT_SHARES = [0.5, 0.25, 0.12, 0.08, 0.03, 0.02]
INSTANCES_PER_MODEL = 8
SMALL = ["rehash_round", "it", "ot"]  # columns of few values beside the texts
SWING = 0.5  # of the rate over a day
REPEATS = 0.9  # of requests that may follow another one of their user and model, as its model allows …
BACK = 2_000  # … which lies up to so many requests back, log-uniform
POOL = 1 << 16  # values are drawn once and indexed at random: a draw a row would dominate the run
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """What is made.

    rows, models, users, days  sizes of the trace
    seed                       of every draw
    """

    rows: int
    models: int = 200
    users: int = 5_000
    days: int = 120
    seed: int = 10


def skewed(size: int, exponent: float, random: np.random.Generator) -> npt.NDArray[np.int32]:
    """A pool of indices below `size`, the first ones more often (Zipf-like), a power of two of them."""
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    pool = max(POOL, 1 << (16 * size).bit_length())
    return random.choice(size, pool, p=weights / weights.sum()).astype(np.int32)


def identifiers(kind: str, count: int, seed: int) -> list[str]:
    """Texts that look like random ids, the same for the same arguments."""
    random = np.random.default_rng([seed, *kind.encode()])
    raw = random.bytes(16 * count).hex()
    return [raw[32 * i : 32 * i + 32] for i in range(count)]


class Traits:
    """How models differ, by code.

    inputs, outputs  float32[models], factors of the tokens
    bursts, hits     int64[models], chances of POOL: that a request is followed, that its prompt was cached
    """

    def __init__(self, models: int, random: np.random.Generator) -> None:
        self.inputs, self.outputs = random.lognormal(0.0, 0.7, (2, models)).astype(np.float32)
        self.bursts = (POOL * random.beta(4, 1.2, models)).astype(np.int64)
        self.hits = (POOL * random.beta(1.2, 1.2, models)).astype(np.int64)


class Maker:
    """Draws row groups one after the other. Changed by `group`."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        random = np.random.default_rng(shape.seed)
        self.random = random
        self.clock_us = 0
        self.made = 0
        self.gap_us = shape.days * DAY_US / max(shape.rows, 1)
        self.model_pool = skewed(shape.models, 1.1, random)
        self.user_pool = skewed(shape.users, 1.1, random)
        self.first_day = np.sort(random.integers(0, max(shape.days - 1, 1), shape.users))
        self.first_day[: shape.users // 4] = 0
        self.endpoints = random.choice(len(ENDPOINTS), POOL, p=ENDPOINT_SHARES).astype(np.int32)
        self.inputs = random.lognormal(7.3, 1.5, POOL).astype(np.float32)
        self.outputs = random.lognormal(4.8, 1.2, POOL).astype(np.float32)
        # a user's first model is asked for most, the next ones half as often each
        self.choices = np.array([(i & -i).bit_length() for i in range(POOL)], np.int32)
        self.steps_back = np.maximum(1, BACK ** random.random(POOL)).astype(np.int32)
        self.steps_back[random.random(POOL) > REPEATS] = 0
        self.gaps = random.exponential(1.0, POOL) * (random.random(POOL) > 0.02)  # 2 % ties
        self.ttfts = np.round(random.lognormal(-0.9, 0.9, POOL), 3)
        self.hits = np.where(random.random(POOL) < 0.2, 0.0, random.beta(8, 1, POOL)).astype(np.float32)
        self.traits = Traits(shape.models, np.random.default_rng([shape.seed, 1]))
        self.models = pa.array([f"{i[:8]}-{i[8:12]}-{i[12:16]}" for i in identifiers("m", shape.models, 1)])
        self.users = [pa.array(identifiers(f"u{r}", shape.users, 2)) for r in range(len(ROUND_STARTS_DAY))]
        self.instances = pa.array(identifiers("i", shape.models * INSTANCES_PER_MODEL, 3))

    def starts(self, rows: int) -> Ints:
        """The next `rows` start times, busier by day than by night, in order, some equal."""
        gaps = self.gaps[self.random.integers(0, POOL, rows)]
        nominal = self.clock_us + np.arange(rows) * self.gap_us
        busy = 1.0 + SWING * np.sin(2 * np.pi / DAY_US * nominal)
        mean = 0.98 / np.sqrt(1.0 - SWING**2)  # of gap / busy: the wanted span is kept
        steps = (gaps / busy * (self.gap_us / mean)).astype(np.int64)
        if not self.made:
            steps[0] = 0
        times: Ints = self.clock_us + np.cumsum(steps)
        self.clock_us = int(times[-1])
        self.made += rows
        return times

    def group(self, rows: int) -> pa.Table:
        """The next row group."""
        random, first = self.random, self.made
        started = self.starts(rows)
        draw = random.integers(0, POOL, (6, rows), dtype=np.uint16)
        wide = random.integers(0, len(self.user_pool), rows, dtype=np.int32)
        user = self.user_pool[wide]
        moved = (user + draw[0] % 7) % self.shape.users
        user = np.where(self.first_day[user] * DAY_US > started, moved, user)
        mixed = user.astype(np.uint32) * np.uint32(2654435761) + self.choices[draw[0]].astype(
            np.uint32
        ) * np.uint32(40503)
        model = self.model_pool[mixed & np.uint32(len(self.model_pool) - 1)]
        again = self._repeated(draw[4], model, draw[5])
        user, model, draw[1] = user[again], model[again], draw[1][again]
        endpoint, traits = self.endpoints[draw[1]], self.traits
        inputs = np.minimum((self.inputs[draw[2]] * traits.inputs[model]).astype(np.int64), 250_000)
        outputs = np.minimum((self.outputs[draw[3]] * traits.outputs[model]).astype(np.int64), 20_000)
        text = endpoint < 4
        cached = (inputs * self.hits[draw[2]] * (draw[5] < traits.hits[model])).astype(np.int64)
        ttft = self.ttfts[draw[3]] + inputs * 2e-5
        ended = started + ((ttft + outputs * 0.012) * 1e6).astype(np.int64)
        instance = model * INSTANCES_PER_MODEL + (draw[3] % INSTANCES_PER_MODEL).astype(np.int32)
        late = started > (self.shape.days * 2 // 3) * DAY_US  # cached tokens are logged late in the year
        never = draw[2] % 97 == 0
        turn = np.searchsorted(ROUND_STARTS_DAY * DAY_US, started, side="right") - 1
        return pa.table(
            {
                "invocation_id": pa.array(np.arange(first, first + rows)),
                "function_name": _coded(endpoint, pa.array(ENDPOINTS)),
                "chute_id": _coded(model, self.models),
                "user_id": self._users(user, turn, draw[3] % 211 == 0),
                "rehash_round": pa.array(turn.astype(np.int32)),
                "instance_id": _coded(instance, self.instances, draw[3] % 53 == 0),
                "started_at": pa.array(started, pa.timestamp("us")),
                "completed_at": pa.array(ended, pa.timestamp("us"), mask=never),
                "it": pa.array(inputs, mask=~text),
                "ot": pa.array(np.where(draw[0] % 101 == 0, 0, outputs), mask=~text | never),
                "ct": pa.array(cached, mask=~late | ~text),
                "ttft": pa.array(ttft, mask=~text | never | (endpoint == 1)),
            }
        )

    def _repeated(
        self, draw: npt.NDArray[np.uint16], model: npt.NDArray[np.int32], chance: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.int32]:
        """For each row the one whose user and model it has: itself, or the first of a burst."""
        rows = np.arange(len(draw), dtype=np.int32)
        source = rows - self.steps_back[draw]
        source = np.where((source < 0) | (chance >= self.traits.bursts[model[source]]), rows, source)
        while not np.array_equal(source, further := source[source]):
            source = further
        return source

    def _users(self, user: npt.NDArray[np.int32], turn: Ints, null: npt.NDArray[np.bool_]) -> pa.Array:
        first, last = int(turn[0]), int(turn[-1])
        if first == last:
            return _coded(user, self.users[first], null)
        texts = pa.concat_arrays(self.users[first : last + 1])
        codes = user + ((turn - first) * self.shape.users).astype(np.int32)
        return _coded(codes.astype(np.int32), texts, null)


def _coded(
    codes: npt.NDArray[np.int32], texts: pa.Array, null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    used = np.zeros(len(texts), np.bool_)
    used[codes] = True
    rank = np.cumsum(used, dtype=np.int32) - 1
    indices = pa.array(rank[codes].astype(np.int32), mask=null)
    return pa.DictionaryArray.from_arrays(indices, texts.filter(pa.array(used)))


def make(target: Path, shape: Shape) -> None:
    """Write the trace and its two side tables."""
    maker = Maker(shape)
    with atomic(target) as part, ThreadPoolExecutor(1) as pool:
        writer = None
        written: Future[None] | None = None
        while maker.made < shape.rows:
            table = maker.group(min(GROUP_ROWS, shape.rows - maker.made))
            # stored as plain strings, as in the published file: no Arrow dictionary types in the schema
            texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
            writer = writer or pq.ParquetWriter(
                part, table.schema, compression="zstd", store_schema=False, use_dictionary=texts + SMALL
            )
            if written:
                written.result()
            written = pool.submit(writer.write_table, table, row_group_size=GROUP_ROWS)
        if writer is not None and written is not None:
            written.result()
            writer.close()
    _write_csv(
        target.with_suffix(".cohorts.csv"), ["user_id", "rehash_round", "release_cohort"], _cohorts(maker)
    )
    names = [
        [chute, f"org-{i % 9}/model-{i}"] for i, chute in enumerate(maker.models.to_pylist()) if i % 10 != 9
    ]
    _write_csv(target.with_suffix(".names.csv"), ["chute_id", "name"], names)


def _cohorts(maker: Maker) -> list[list[object]]:
    months = np.searchsorted(MONTH_STARTS_DAY, maker.first_day, side="right").tolist()
    rounds = int(np.searchsorted(ROUND_STARTS_DAY, maker.shape.days, side="left"))
    return [
        [user, turn, month]
        for turn in range(max(rounds, 1))
        for user, month in zip(maker.users[turn].to_pylist(), months, strict=True)
    ]


def _write_csv(path: Path, header: list[str], rows: list[list[object]] | list[list[str]]) -> None:
    with atomic(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    """Parse the options, make the files, say how fast."""
    if sys.argv[1:2] in (["sessions"], ["blocks"]):
        importlib.import_module(f"make_{sys.argv.pop(1)}").main()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--days", type=int, default=120)
    args = parser.parse_args()
    began = time.perf_counter()
    make(args.out, Shape(args.rows, args.models, args.users, args.days, args.seed))
    spent = time.perf_counter() - began
    print(f"{args.rows:,} rows in {spent:.1f} s, {args.rows / spent / 1e6:.2f} M rows/s")


if __name__ == "__main__":
    main()
