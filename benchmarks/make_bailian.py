"""Make a Bailian-format file of a wanted size: `python benchmarks/make_bailian.py OUT [--rows 270000]`.

270,000 rows are about 300 MB; as in the real traces about 60 % of the block references were seen before.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servescope.files import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_TOKENS = 16
KINDS = ("text", "search", "file", "image")
HELD = 400  # a follow-up's parent is one of this many last requests
MOST_TOKENS = 30_000


def rows(count: int, seed: int) -> Iterator[dict[str, object]]:
    """`count` requests in chains of growing prompts; same seed, same rows."""
    random = np.random.default_rng(seed)
    sizes = np.minimum(random.lognormal(6.1, 1.0, count).astype(int) + 1, MOST_TOKENS)
    outputs = np.minimum(random.lognormal(5.0, 1.2, count).astype(int) + 1, 8_000)
    times = np.cumsum(random.exponential(1 / 24, count)).round(3)
    follows = random.random(count) < 0.58
    back = random.integers(1, HELD, count)
    held: deque[tuple[int, int, list[int]]] = deque(maxlen=HELD)  # tokens, turn, blocks
    fresh = 0
    for i in range(count):
        parent, turn, tokens, ids = -1, 1, int(sizes[i]), list[int]()
        if follows[i] and back[i] <= len(held):
            parent = i - int(back[i])
            parent_tokens, turn, blocks = held[-int(back[i])]
            turn, tokens = turn + 1, min(parent_tokens + tokens, MOST_TOKENS)
            ids = blocks[: min(parent_tokens, tokens) // BLOCK_TOKENS]
        missing = -(-tokens // BLOCK_TOKENS) - len(ids)
        ids = [*ids, *range(fresh, fresh + missing)]
        fresh += missing
        held.append((tokens, turn, ids))
        yield {
            "chat_id": i,
            "parent_chat_id": parent,
            "timestamp": float(times[i]),
            "input_length": tokens,
            "output_length": int(outputs[i]),
            "type": KINDS[i % len(KINDS)],
            "turn": turn,
            "hash_ids": ids,
        }


def make(out: Path, count: int, seed: int = 10) -> None:
    """Write the file, whole or not at all."""
    with atomic(out) as part, part.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count, seed))


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=270_000)
    parser.add_argument("--seed", type=int, default=10)
    args = parser.parse_args()
    make(args.out, args.rows, args.seed)


if __name__ == "__main__":
    main()
