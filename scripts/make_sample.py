"""Make the sample trace that ships in the package: `python scripts/make_sample.py [OUT]`.

A made-up trace in the Qwen-Bailian format with the shape of the published slices: five request
types with their lengths, a rate that climbs through two hours with bursts, sessions as growing
trees, prompt templates that unrelated requests share. Same seed, same rows: only `random.Random`
is used, whose streams are the same in every Python.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from servescope.api import SAMPLE
from servescope.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 10
SPAN_S = 7200.0
BLOCK_TOKENS = 16
BURSTS = 14
BURST_SHARE = 0.06  # of the sessions, they start within one of the bursts
BURST_S = 12.0
ZSTD_LEVEL = 19


@dataclass(frozen=True)
class Kind:
    """One request type.

    sessions            how many start
    input, input_sigma  median tokens of a first turn, and the spread of its logarithm
    most                longest prompt, tokens (contexts are cut there)
    output, output_sigma  the same of the answer
    follows             probability that another turn comes
    keeps               probability that a follow-up's prompt begins with its parent's
    adds                tokens that a follow-up adds beside the answer, as a share of its parent's prompt
    templates           prompt beginnings that unrelated requests share
    template_share      part of a first prompt that its template makes up
    """

    sessions: int
    input: float
    input_sigma: float
    most: int
    output: float
    output_sigma: float
    follows: float
    keeps: float
    adds: float
    templates: int
    template_share: float


KINDS: dict[str, Kind] = {
    "text": Kind(1650, 560, 1.08, 16_000, 310, 0.95, 0.27, 0.585, 0.30, 60, 0.22),
    "search": Kind(480, 4500, 0.52, 18_000, 420, 0.6, 0.24, 0.99, 0.03, 6, 0.22),
    "file": Kind(190, 5100, 0.62, 26_000, 360, 0.7, 0.25, 0.99, 0.04, 40, 0.10),
    "image": Kind(300, 352, 0.35, 3_000, 69, 0.7, 0.16, 0.065, 0.20, 6, 0.96),
    "api": Kind(1100, 600, 0.6, 8_000, 37, 1.0, 0.0, 0.0, 0.0, 40, 0.66),
}


@dataclass
class Turn:
    """One planned request; `blocks` are given in time order, when its parent has its own."""

    kind: str
    at_s: float
    parent: Turn | None
    number: int
    chat_id: int = -1
    tokens: int = 0
    output: int = 0
    blocks: tuple[int, ...] = ()
    template: tuple[int, ...] = ()


def plan(random: Random) -> list[Turn]:
    """All requests of the two hours in time order."""
    bursts = [random.uniform(600, SPAN_S - 60) for _ in range(BURSTS)]
    turns: list[Turn] = []
    for name, kind in KINDS.items():
        for _ in range(kind.sessions):
            turns.extend(session(random, name, kind, start(random, bursts)))
    turns = [turn for turn in turns if turn.at_s < SPAN_S]
    turns.sort(key=lambda turn: turn.at_s)
    return turns


def start(random: Random, bursts: list[float]) -> float:
    """When a session begins: the rate climbs to 2.6 times its start, some come in bursts."""
    if random.random() < BURST_SHARE:
        return random.choice(bursts) + random.uniform(0, BURST_S)
    climb = 2.6
    # inverse of the distribution whose density rises linearly from 1 to `climb`
    target = random.random() * (1 + climb) / 2
    place = (math.sqrt(1 + 2 * (climb - 1) * target) - 1) / (climb - 1)
    return place * SPAN_S


def session(random: Random, name: str, kind: Kind, begin: float) -> list[Turn]:
    """The turns of one session; now and then a turn is asked again from an earlier one."""
    turns = [Turn(name, begin, None, 1)]
    follows = kind.follows
    while random.random() < follows and len(turns) < 40:
        last = turns[-1]
        parent = last.parent if last.parent and random.random() < 0.06 else last
        pause = 8 + random.lognormvariate(math.log(45), 1.1)
        turns.append(Turn(name, last.at_s + pause, parent, parent.number + 1))
        follows = min(0.85, follows + 0.18)  # who asks twice goes on asking: long sessions exist
    return turns


def fill(seed: int, turns: list[Turn]) -> None:
    """Give every turn its lengths and blocks; each type has a stream of its own. Changes the turns."""
    fresh = iter(range(1 << 40))
    randoms = {name: Random(f"{seed} {name}") for name in KINDS}
    templates = {
        name: [make_template(kind, fresh) for _ in range(kind.templates)] for name, kind in KINDS.items()
    }
    for chat_id, turn in enumerate(turns):
        kind, random = KINDS[turn.kind], randoms[turn.kind]
        turn.chat_id = chat_id
        turn.output = 1 + min(8000, int(random.lognormvariate(math.log(kind.output), kind.output_sigma)))
        head = parent_head(random, kind, turn)
        if head is None:
            turn.tokens = length(random, kind)
            turn.template = pick(random, templates[turn.kind], other_than=turn.parent)
            head = turn.template[
                : int(turn.tokens * kind.template_share * random.uniform(0.7, 1.3)) // BLOCK_TOKENS
            ]
        count = -(-turn.tokens // BLOCK_TOKENS)
        head = head[: turn.tokens // BLOCK_TOKENS]
        turn.blocks = (*head, *(next(fresh) for _ in range(count - len(head))))


def parent_head(random: Random, kind: Kind, turn: Turn) -> tuple[int, ...] | None:
    """Whole blocks of the parent's prompt that this one begins with, and its length; None for a new prompt.

    Changes `turn.tokens`. The parent's last, partly filled block is not extended in place.
    """
    if turn.parent is None or random.random() >= kind.keeps:
        return None
    added = int(turn.parent.tokens * kind.adds * random.uniform(0.3, 1.7)) + random.randint(8, 90)
    turn.tokens = turn.parent.tokens + turn.parent.output + added
    if turn.tokens > kind.most:
        return None
    return turn.parent.blocks[: turn.parent.tokens // BLOCK_TOKENS]


def length(random: Random, kind: Kind) -> int:
    """Tokens of a prompt that does not continue another."""
    return min(kind.most, 12 + int(random.lognormvariate(math.log(kind.input), kind.input_sigma)))


def make_template(kind: Kind, fresh: Iterator[int]) -> tuple[int, ...]:
    """Blocks of one template, long enough for any prompt that begins with it."""
    return tuple(
        next(fresh) for _ in range(int(2.2 * kind.input * max(kind.template_share, 0.2)) // BLOCK_TOKENS)
    )


def pick(random: Random, templates: list[tuple[int, ...]], *, other_than: Turn | None) -> tuple[int, ...]:
    """A template, the first ones far more popular (Zipf); a follow-up that starts anew takes another."""
    while True:
        template = templates[min(len(templates), int(len(templates) ** random.random())) - 1]
        if other_than is None or template != other_than.template:
            return template


def rows(seed: int = SEED) -> list[dict[str, object]]:
    """The sample's rows, as the Bailian format writes them."""
    turns = plan(Random(seed))
    fill(seed, turns)
    names: dict[int, int] = {}
    begin = turns[0].at_s
    return [
        {
            "chat_id": turn.chat_id,
            "parent_chat_id": turn.parent.chat_id if turn.parent else -1,
            "timestamp": round(turn.at_s - begin, 3),
            "input_length": turn.tokens,
            "output_length": turn.output,
            "type": turn.kind,
            "turn": turn.number,
            "hash_ids": [names.setdefault(block, len(names)) for block in turn.blocks],
        }
        for turn in turns
    ]


def text(seed: int = SEED) -> bytes:
    """The sample as JSON lines."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows(seed))


def main() -> None:
    """Write the sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=SAMPLE)
    out = parser.parse_args().out
    plain = text()
    packed = pa.Codec("zstd", compression_level=ZSTD_LEVEL).compress(plain, asbytes=True)
    write_atomic(out, packed)
    print(f"{out}: {len(plain):,} bytes, {len(packed):,} compressed")


if __name__ == "__main__":
    main()
