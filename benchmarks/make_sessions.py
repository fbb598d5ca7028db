"""Make a trace whose sessions are known: `python benchmarks/make_sessions.py OUT.parquet [--rows N] …`.

Users keep several chains going at once; a session's prompt grows by the last answer and something new;
one user may send most of the requests. `--form canonical` states session, parent and turn of every
request, `--form chutes` holds the same rows as the platform logs them, without. Same options, same bytes.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import chains as at
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from make_trace import ENDPOINTS, GROUP_ROWS, ROUND_STARTS_DAY, SMALL, identifiers

from servescope import schema
from servescope.files import atomic
from servescope.ledger import Ledger
from servescope.trace import Origin, Trace, TraceMeta
from servescope.trace_write import write_canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Ints = npt.NDArray[np.int64]
INSTANCES = 20
DAY_US = 86_400_000_000
HIT = 0.75  # chance that a follow-up's history is still cached
NULLS = 512  # one row in so many lacks its user, another its instance
# relative rate by hour: evenings are twice as busy as mornings
BUSY = 1.0 + 0.35 * np.sin(2 * np.pi / 24 * (np.arange(24) - 9))


@dataclass(frozen=True)
class Shape:
    """What is made.

    rows          requests
    users         with their own chains, beside the dominant one
    parallel      chains that each of them keeps going
    dominant      share of the requests that one more user sends, 0 for none
    rate_s        requests/s of all; None: rests are `rest_s` and the rate is what comes of it
    first_tokens, new_tokens, output_tokens  medians of log-normal draws, and their sigma beside them
    most_first    longest first prompt
    limit_tokens  a session whose context exceeds it ends
    again_first, again_later  chance of one more turn after the first, after later ones
    think_s       median time from an answer to the next turn; rest_s: to the next session (of the
                  dominant user only where `rate_s` is given: the others rest as long as it takes)
    shortened     chance that a follow-up's history was cut, so that its prompt may shrink
    repeated      chance that a follow-up tries the last turn again: two children of one parent
    overlapping   chance that a follow-up does not wait for the answer
    models        each chain keeps to one
    seed          of every draw
    """

    rows: int
    users: int = 2_000
    parallel: int = 2
    dominant: float = 0.0
    rate_s: float | None = None
    first_tokens: tuple[float, float] = (2_500.0, 1.3)
    new_tokens: tuple[float, float] = (900.0, 1.3)
    output_tokens: tuple[float, float] = (150.0, 1.0)
    most_first: int = 180_000
    limit_tokens: int = 190_000
    again_first: float = 0.65
    again_later: float = 0.85
    think_s: tuple[float, float] = (20.0, 1.2)
    rest_s: tuple[float, float] = (120.0, 1.0)
    shortened: float = 0.02
    repeated: float = 0.02
    overlapping: float = 0.02
    models: int = 1
    seed: int = 10


PRESETS = {
    "plain": Shape(1_000_000, models=20),
    # Requests, rates, the heaviest share and what the published rule finds (turns, single turns, lengths,
    # prefix share) are near the two windows of the study; the values come from a random search.
    "minimax": Shape(
        4_223_356, users=1_500, dominant=0.884, rate_s=6.98,
        first_tokens=(236.0, 0.4), new_tokens=(3_530.0, 1.45), limit_tokens=191_000,
        again_first=0.6, again_later=0.893, think_s=(0.31, 1.2), rest_s=(95.0, 1.0),
        shortened=0.116, overlapping=0.3,
    ),
    "deepseek": Shape(
        7_197_399, users=300_000, parallel=1, dominant=0.3, rate_s=11.9,
        first_tokens=(10_900.0, 0.52), new_tokens=(620.0, 0.8), limit_tokens=69_700,
        again_first=0.1, again_later=0.904, think_s=(21.0, 1.2), rest_s=(185.0, 1.0),
        shortened=0.322,
    ),
}  # fmt: skip


def _pool(
    random: np.random.Generator, median: tuple[float, float], low: float, high: float
) -> npt.NDArray[np.int32]:
    values = random.lognormal(np.log(median[0]), median[1], at.POOL)
    return np.clip(values, low, high).astype(np.int32)


class Maker:
    """Sends the requests of all chains, group after group. Changed by `group`."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.made, self.first_us = shape, 0, -1
        random = np.random.default_rng([shape.seed, 1])
        self.pools = np.stack(
            [
                _pool(random, shape.first_tokens, 1, shape.most_first),
                _pool(random, shape.new_tokens, 1, shape.most_first),
                _pool(random, shape.output_tokens, 1, 20_000),
                _pool(random, (1_000 * shape.think_s[0], shape.think_s[1]), 1, 86_400_000),
                _pool(random, (1_000.0, 0.6), 50, 50_000),
                _pool(random, (1_000 * shape.rest_s[0], shape.rest_s[1]), 1, 86_400_000),
            ]
        )
        chances = (
            shape.again_first,
            shape.again_later,
            shape.shortened,
            shape.repeated,
            shape.overlapping,
            0.75,
        )
        self.chances = np.array([round(x * 2**32) for x in chances], np.int64)
        self.state = np.array([shape.seed], np.uint64)
        self.chains = self._chains(random)
        self.times = self._first_events(random)
        self.queue = np.arange(len(self.chains), dtype=np.int32)
        self.users: dict[int, pa.Array] = {}  # ids by rotation round
        ids = identifiers("m", shape.models, 1)
        self.models = pa.array([f"{i[:8]}-{i[8:12]}-{i[12:16]}" for i in ids])
        self.instances = pa.array(identifiers("i", shape.models * INSTANCES, 3))

    def _session(self) -> tuple[float, float]:
        """Turns of a session, as far as its context allows, and the time that it takes, seconds."""
        shape, pools = self.shape, self.pools
        turns = 1 + shape.again_first / (1 - shape.again_later)
        think = pools[at.THINKS_MS].mean() / 1e3 * pools[at.PACES].mean() / 1e3
        return turns, float(turns * pools[at.OUTPUTS].mean() * 0.012 + (turns - 1) * think)

    def _chains(self, random: np.random.Generator) -> Ints:
        """The chains of all users, in the order of their first events."""
        shape = self.shape
        turns, busy_s = self._session()
        rest_s = self.pools[at.RESTS_MS].mean() / 1e3
        others, factor = shape.users * shape.parallel, 1.0
        each_s = turns / (busy_s + rest_s)
        if shape.rate_s is not None:
            cycle_s = others * turns / (shape.rate_s * (1 - shape.dominant))
            factor = max(cycle_s - busy_s, 0.0) / rest_s
            dominant = round(shape.rate_s * shape.dominant / each_s)
        else:
            dominant = round(others * shape.dominant / (1 - shape.dominant))
        chains = np.zeros((others + dominant, at.CHAIN_FIELDS), np.int64)
        chains[:others, at.CHAIN_USER] = 1 + np.repeat(np.arange(shape.users), shape.parallel)
        weights = 1 / np.arange(1, shape.models + 1)
        chains[:, at.CHAIN_MODEL] = random.choice(shape.models, len(chains), p=weights / weights.sum())
        chains[:, at.CHAIN_ENDPOINT] = random.choice(4, len(chains), p=[0.75, 0.2, 0.03, 0.02])
        chains[:, at.CHAIN_REST] = 1_000
        chains[:others, at.CHAIN_REST] = round(1_000 * factor)
        return chains

    def _first_events(self, random: np.random.Generator) -> Ints:
        """When each chain (put in that order) starts its first session: evenly over one round of it."""
        rest = self.pools[at.RESTS_MS].mean() * self.chains[:, at.CHAIN_REST]
        times = random.random(len(self.chains)) * (1e6 * self._session()[1] + rest)
        order = np.argsort(times, kind="stable")
        self.chains = self.chains[order]
        return times[order].astype(np.int64)

    def user_ids(self, turn: int) -> pa.Array:
        """Ids of all users in a rotation round."""
        if turn not in self.users:
            self.users[turn] = pa.array(identifiers(f"s{turn}", self.shape.users + 1, self.shape.seed))
        return self.users[turn]

    def group(self, rows: int) -> Ints:
        """The next rows, int64[rows, ROW_FIELDS]; the first request is at 0."""
        out = np.empty((rows, at.ROW_FIELDS), np.int64)
        at.send(
            rows, self.made, self.shape.limit_tokens, self.times, self.queue, self.chains,
            self.pools, self.chances, BUSY, self.state, out,
        )  # fmt: skip
        if self.first_us < 0:
            self.first_us = int(out[0, at.START_US])
        out[:, [at.START_US, at.END_US]] -= self.first_us
        self.made += rows
        return out

    def tables(self, build: Callable[[Maker, int, Ints], pa.Table]) -> Iterator[pa.Table]:
        """The rows as tables; the next one is made while the caller works on the last."""

        def following(low: int) -> pa.Table:
            return build(self, low, self.group(min(GROUP_ROWS, self.shape.rows - low)))

        starts = range(0, self.shape.rows, GROUP_ROWS)
        with ThreadPoolExecutor(1) as pool:
            coming: Future[pa.Table] | None = pool.submit(following, 0) if starts else None
            for low in starts:
                assert coming is not None
                table = coming.result()
                more = low + GROUP_ROWS in starts
                coming = pool.submit(following, low + GROUP_ROWS) if more else None
                yield table


def _coded(codes: Ints, texts: pa.Array, null: npt.NDArray[np.bool_] | None = None) -> pa.DictionaryArray:
    """Codes with those texts that occur."""
    used = np.zeros(len(texts), np.bool_)
    used[codes if null is None else codes[~null]] = True
    rank = np.cumsum(used, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(
        pa.array(np.maximum(rank[codes], 0), mask=null), texts.filter(pa.array(used))
    )


def _users(maker: Maker, rows: Ints, key: bool) -> pa.DictionaryArray:
    """User ids, anew every three nominal months; `key`: with the rotation round behind them."""
    turn = np.searchsorted(ROUND_STARTS_DAY * DAY_US, rows[:, at.START_US], side="right") - 1
    first, last = int(turn[0]), int(turn[-1])
    held = [maker.user_ids(at_round) for at_round in range(first, last + 1)]
    codes = rows[:, at.USER] + (turn - first) * len(held[0])
    coded = _coded(codes, pa.concat_arrays(held), rows[:, at.DRAW] % NULLS == 0)
    if not key:
        return coded
    # the texts that occur stand in the order of their codes
    used = np.unique(codes[rows[:, at.DRAW] % NULLS != 0]) // len(held[0]) + first
    ids = pc.binary_join_element_wise(coded.dictionary, pa.array(used.astype(str)), "@")
    return pa.DictionaryArray.from_arrays(coded.indices, ids)


def _common(maker: Maker, rows: Ints) -> dict[str, pa.Array]:
    """Columns that both forms hold."""
    instance = rows[:, at.MODEL] * INSTANCES + rows[:, at.DRAW] % INSTANCES
    return {
        "endpoint": _coded(rows[:, at.ENDPOINT], pa.array(ENDPOINTS)),
        "model": _coded(rows[:, at.MODEL], maker.models),
        "instance": _coded(instance, maker.instances, rows[:, at.DRAW] % NULLS == 1),
        "input": pa.array(rows[:, at.INPUT].astype(np.int32)),
        "output": pa.array(rows[:, at.OUTPUT].astype(np.int32)),
        "cached": pa.array(rows[:, at.CACHED].astype(np.int32)),
        "ttft": pa.array(rows[:, at.TTFT_US] / 1e6),
    }


def chutes_table(maker: Maker, first: int, rows: Ints) -> pa.Table:
    """The rows as the platform logs them: no session, no parent, no turn."""
    held = _common(maker, rows)
    turn = np.searchsorted(ROUND_STARTS_DAY * DAY_US, rows[:, at.START_US], side="right") - 1
    return pa.table(
        {
            "invocation_id": pa.array(np.arange(first, first + len(rows))),
            "function_name": held["endpoint"],
            "chute_id": held["model"],
            "user_id": _users(maker, rows, False),
            "rehash_round": pa.array(turn.astype(np.int32)),
            "instance_id": held["instance"],
            "started_at": pa.array(rows[:, at.START_US], pa.timestamp("us")),
            "completed_at": pa.array(rows[:, at.END_US], pa.timestamp("us")),
            "it": held["input"],
            "ot": held["output"],
            "ct": held["cached"],
            "ttft": held["ttft"],
        }
    )


def canonical_table(maker: Maker, first: int, rows: Ints) -> pa.Table:
    """The rows with session (number of its first request), parent and turn."""
    held = _common(maker, rows)
    made = {
        "request_id": pa.array(np.arange(first, first + len(rows))),
        "arrival_us": pa.array(rows[:, at.START_US]),
        "endpoint": held["endpoint"],
        "model": held["model"],
        "user": _users(maker, rows, True),
        "instance": held["instance"],
        "input_tokens": held["input"],
        "output_tokens": held["output"],
        "cached_tokens": held["cached"],
        "ttft_s": held["ttft"],
        "completed_us": pa.array(rows[:, at.END_US]),
        "source_row": pa.array(np.arange(first + 1, first + 1 + len(rows))),
        "session_id": pa.array(rows[:, at.SESSION]),
        "parent_id": pa.array(rows[:, at.PARENT], mask=rows[:, at.PARENT] < 0),
        "turn": pa.array(rows[:, at.TURN].astype(np.int32)),
    }
    arrays = [made.get(c.name) for c in schema.COLUMNS]
    filled = [
        pa.nulls(len(rows), c.arrow) if a is None else a.cast(c.arrow)
        for a, c in zip(arrays, schema.COLUMNS, strict=True)
    ]
    return pa.table(filled, schema=schema.arrow_schema())


@dataclass(frozen=True)
class StreamedPart:
    """A part that exists once: the next table of a stream, asked for in order."""

    rows: int
    following: Callable[[], pa.Table]

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`; each part once, in order."""
        return self.following().select([name for name in schema.NAMES if name in set(columns)])

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`; a stream cannot be known again."""
        return ""


def streamed(meta: TraceMeta, sizes: Sequence[int], tables: Iterator[pa.Table]) -> Trace:
    """A trace to write once with `write_canonical`."""
    return Trace(meta, tuple(StreamedPart(rows, lambda: next(tables)) for rows in sizes))


COLUMNS = (
    "request_id", "arrival_us", "endpoint", "model", "user", "instance", "input_tokens", "output_tokens",
    "cached_tokens", "ttft_s", "completed_us", "source_row", "session_id", "parent_id", "turn",
)  # fmt: skip


def make_canonical(target: Path, shape: Shape) -> None:
    """Write canonical Parquet, sessions stated."""
    maker = Maker(shape)
    tables = maker.tables(canonical_table)
    sizes = [min(GROUP_ROWS, shape.rows - low) for low in range(0, shape.rows, GROUP_ROWS)]
    decisions = ["made rows; sessions, parents and turns are those that the rows were made from"]
    ledger = Ledger(shape.rows, shape.rows)
    meta = TraceMeta("made", [], decisions, Origin("nominal"), list(COLUMNS), ledger)
    write_canonical(streamed(meta, sizes, tables), target)


def make_chutes(target: Path, shape: Shape) -> None:
    """Write the same rows as the platform logs them."""
    maker = Maker(shape)
    with atomic(target) as part, ThreadPoolExecutor(1) as pool:
        writer: pq.ParquetWriter | None = None
        written: Future[None] | None = None
        for table in maker.tables(chutes_table):
            texts = [f.name for f in table.schema if pa.types.is_dictionary(f.type)]
            writer = writer or pq.ParquetWriter(
                part, table.schema, compression="zstd", store_schema=False, use_dictionary=texts + SMALL
            )
            if written:
                written.result()
            written = pool.submit(writer.write_table, table, row_group_size=GROUP_ROWS)
        if writer is not None and written is not None:
            written.result()
            writer.close()


FORMS = {"canonical": make_canonical, "chutes": make_chutes}


def main() -> None:
    """Parse the options, make the file, say how fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--form", choices=sorted(FORMS), default="canonical")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="plain")
    for name, kind in (("rows", int), ("users", int), ("parallel", int), ("dominant", float), ("seed", int)):
        parser.add_argument(f"--{name}", type=kind)
    args = parser.parse_args()
    given = {k: v for k, v in vars(args).items() if k in Shape.__dataclass_fields__ and v is not None}
    shape = replace(PRESETS[args.preset], **given)
    began = time.perf_counter()
    FORMS[args.form](args.out, shape)
    spent = time.perf_counter() - began
    print(f"{shape.rows:,} rows in {spent:.1f} s, {shape.rows / spent / 1e6:.2f} M rows/s")


if __name__ == "__main__":
    main()
