"""Caches of prefix blocks that keep queues, in plain Python: T-LRU, TTL, SIEVE, S3-FIFO, LMCache.

Nothing but the current request is held. Lists run from old to young.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.reference.block_policies import is_leaf, leading, path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.block_policies import Node, Prompt


def tail_lru(
    prompts: Sequence[Prompt],
    inputs: Sequence[int],
    outputs: Sequence[int],
    block_tokens: int,
    capacity: int,
    spare_tokens: int,
) -> list[int]:
    queues: tuple[list[Node], list[Node]] = ([], [])  # excess, rest
    hits = []
    for prompt, tokens, output in zip(prompts, inputs, outputs, strict=True):
        nodes = path(prompt)
        hits.append(leading({*queues[0], *queues[1]}, nodes))
        held = nodes[: hits[-1]]
        for node in held:
            for queue in queues:
                if node in queue:
                    queue.remove(node)
        for node in nodes[hits[-1] :]:
            if len(queues[0]) + len(queues[1]) + len(held) >= capacity:
                cached = {*queues[0], *queues[1], *held}
                victim = next((n for queue in queues for n in queue if is_leaf(n, cached)), None)
                if victim is None:
                    break
                for queue in queues:
                    if victim in queue:
                        queue.remove(victim)
            held.append(node)
        kept = (tokens + output - spare_tokens) // block_tokens
        for node in reversed(held):
            queues[0 if len(node) > kept else 1].append(node)
    return hits


def ttl(prompts: Sequence[Prompt], seconds: Sequence[int], capacity: int, ttl_s: int) -> list[int]:
    queue: list[tuple[int, Node]] = []
    hits = []
    for prompt, now in zip(prompts, seconds, strict=True):
        queue = [(used, node) for used, node in queue if now - used <= ttl_s]
        nodes = path(prompt)
        hits.append(leading({node for _, node in queue}, nodes))
        held = nodes[: hits[-1]]
        queue = [(used, node) for used, node in queue if node not in held]
        for node in nodes[hits[-1] :]:
            if len(queue) + len(held) >= capacity:
                if not queue:
                    break
                queue.pop(0)
            held.append(node)
        queue += [(now, node) for node in reversed(held)]
    return hits


def sieve(prompts: Sequence[Prompt], capacity: int) -> list[int]:
    queue: list[Node] = []
    marked: set[Node] = set()
    hand: Node | None = None
    hits = []
    for prompt in prompts:
        nodes = path(prompt)
        hits.append(leading(set(queue), nodes))
        held = nodes[: hits[-1]]
        marked.update(held)
        fresh: list[Node] = []
        for node in nodes[hits[-1] :]:
            if len(queue) + len(fresh) >= capacity:
                cached = {*queue, *fresh}
                place = queue.index(hand) if hand in queue else 0
                victim = None
                for step in range(2 * len(queue)):
                    other = queue[(place + step) % len(queue)]
                    if other in held or not is_leaf(other, cached):
                        continue
                    if other not in marked:
                        victim = other
                        break
                    marked.discard(other)
                if victim is None:
                    break
                at = queue.index(victim)
                queue.remove(victim)
                hand = queue[at] if at < len(queue) else None
            fresh.append(node)
        marked.difference_update(fresh)
        queue += reversed(fresh)
    return hits


def s3fifo(prompts: Sequence[Prompt], capacity: int, threshold: int) -> list[int]:
    small: list[Node] = []
    main: list[Node] = []
    used: dict[Node, int] = {}
    evicted: dict[Node, int] = {}
    evictions = 0
    hits = []
    for prompt in prompts:
        nodes = path(prompt)
        hits.append(leading({*small, *main}, nodes))
        held = nodes[: hits[-1]]
        for node in held:
            used[node] = min(3, used[node] + 1)
        fresh: list[Node] = []
        for node in nodes[hits[-1] :]:
            if len(small) + len(main) + len(fresh) >= capacity:
                cached = {*small, *main, *fresh}
                gone = False
                for _ in range(5 * (len(small) + len(main)) + 10):
                    over = len(main) + len(fresh) > capacity - capacity // 10
                    if small and (not over or not main):
                        other = small.pop(0)
                        if used[other] >= threshold:
                            main.append(other)
                            used[other] = 0
                        elif other in held or not is_leaf(other, cached):
                            small.append(other)
                        else:
                            evictions += 1
                            evicted[other] = evictions
                            gone = True
                            break
                    elif main:
                        other = main.pop(0)
                        if used[other] > 0 or other in held or not is_leaf(other, cached):
                            used[other] = max(0, used[other] - 1)
                            main.append(other)
                        else:
                            gone = True
                            break
                    else:
                        break
                if not gone:
                    break
            fresh.append(node)
        for node in reversed(fresh):
            known = node in evicted and evictions - evicted.pop(node) < capacity * 9 // 10
            (main if known else small).append(node)
            evicted.pop(node, None)
            used[node] = 0
    return hits


def lmcache(
    prompts: Sequence[Prompt],
    inputs: Sequence[int],
    seconds: Sequence[int],
    block_tokens: int,
    capacity: int,
) -> list[int]:
    average: dict[Node, float] = {}
    idle: dict[Node, tuple[int, int]] = {}  # cached and free: since when, order
    order = 0
    hits = []
    for prompt, tokens, now in zip(prompts, inputs, seconds, strict=True):
        nodes = path(prompt)
        hits.append(leading(set(idle), nodes))
        held = {node: idle.pop(node) for node in nodes if node in idle}
        kept = len(nodes)
        for depth, node in enumerate(nodes):
            if node not in held:
                if len(idle) + len(held) >= capacity:
                    heads: dict[int, Node] = {}
                    for other in sorted(idle, key=lambda other: idle[other][1]):
                        heads.setdefault(int(math.log2(max(1.0, average[other])) * 64), other)
                    if not heads:
                        kept = depth
                        break
                    del idle[
                        min(
                            (heads[kind] for kind in sorted(heads)),
                            key=lambda other: average[other] / (1 + (now - idle[other][0]) / 60),
                        )
                    ]
                held[node] = (now, 0)
            sample = tokens - depth * block_tokens
            average[node] = (
                average[node] + 0.2 * (sample - average[node]) if node in average else float(sample)
            )
        for node in reversed(nodes[:kept]):
            order += 1
            idle[node] = (now, order)
    return hits
