"""Make a Bailian-format file of a wanted size: `python benchmarks/make_bailian.py OUT [--rows 270000]`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from servescope.files import atomic

BLOCK_TOKENS = 16


def rows(count: int, seed: int) -> list[dict[str, object]]:
    """`count` requests in chains of growing prompts; same seed, same rows."""
    random = np.random.default_rng(seed)
    inputs = np.minimum(random.lognormal(7.0, 1.0, count).astype(int) + 1, 30_000)
    outputs = np.minimum(random.lognormal(5.0, 1.2, count).astype(int) + 1, 8_000)
    gaps = random.exponential(1 / 24, count)
    follows = random.random(count) < 0.45
    back = random.integers(1, 200, count)
    made: list[dict[str, object]] = []
    next_block, clock = 0, 0.0
    blocks: list[list[int]] = []
    turns: list[int] = []
    for i in range(count):
        clock += float(gaps[i])
        parent = i - int(back[i]) if follows[i] and i >= back[i] else -1
        tokens, ids, turn = int(inputs[i]), [], 1
        if parent >= 0:
            ids = blocks[parent][:-1]
            tokens = min(len(ids) * BLOCK_TOKENS + int(inputs[i]) // 2 + 1, 40_000)
            ids, turn = ids[: tokens // BLOCK_TOKENS], turns[parent] + 1
        fresh = -(-tokens // BLOCK_TOKENS) - len(ids)
        ids = [*ids, *range(next_block, next_block + fresh)]
        next_block += fresh
        blocks.append(ids)
        turns.append(turn)
        made.append(
            {
                "chat_id": i, "parent_chat_id": parent, "timestamp": round(clock, 3), "input_length": tokens,
                "output_length": int(outputs[i]), "type": ("text", "search", "file", "image")[i % 4],
                "turn": turn, "hash_ids": ids,
            }
        )  # fmt: skip
        if i >= 400:
            blocks[i - 400] = []
    return made


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=270_000)
    parser.add_argument("--seed", type=int, default=10)
    args = parser.parse_args()
    with atomic(args.out) as part, part.open("w") as file:
        for row in rows(args.rows, args.seed):
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
