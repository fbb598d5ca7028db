"""Caches of prefix blocks in plain Python, as slow as they are plain: the judges of the kernels.

A block is the tuple of ids from the start of its prompt, so a node's parent is its tuple without the last.
Nothing but the current request is held.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Prompt = tuple[int, ...]
Node = tuple[int, ...]


def path(prompt: Prompt) -> list[Node]:
    return [prompt[: depth + 1] for depth in range(len(prompt))]


def leading(cached: set[Node], nodes: Sequence[Node]) -> int:
    hits = 0
    while hits < len(nodes) and nodes[hits] in cached:
        hits += 1
    return hits


def is_leaf(node: Node, cached: set[Node]) -> bool:
    return not any(len(other) == len(node) + 1 and other[:-1] == node for other in cached)


def leaf_lru(prompts: Sequence[Prompt], capacity: int) -> tuple[list[int], int]:
    """Hits by request, and evictions."""
    cached: dict[Node, int] = {}
    hits, evictions = [], 0
    for number, prompt in enumerate(prompts):
        nodes = path(prompt)
        hits.append(leading(set(cached), nodes))
        held = set(nodes[: hits[-1]])
        for node in held:
            cached[node] = number
        for node in nodes[hits[-1] :]:
            if len(cached) >= capacity:
                free = [other for other in cached if other not in held and is_leaf(other, set(cached))]
                if not free:
                    break
                del cached[min(free, key=lambda other: (cached[other], -len(other)))]
                evictions += 1
            cached[node] = number
            held.add(node)
    return hits, evictions


def leaf_keyed(prompts: Sequence[Prompt], capacity: int, policy: str) -> list[int]:
    """Hits by request where the leaf with the smallest key goes: lfu, gdsf, sglang_*."""
    cached: dict[Node, dict[str, float]] = {}  # uses, came, used
    clock, hits = 0.0, []

    def key(node: Node) -> tuple[float, ...]:
        facts = cached[node]
        first = {
            "lfu": facts["uses"],
            "gdsf": facts["score"],
            "sglang_lru": facts["used"],
            "sglang_lfu": facts["uses"],
            "sglang_fifo": facts["came"],
            "sglang_mru": -facts["used"],
            "sglang_filo": -facts["came"],
            "sglang_slru": float(facts["uses"] >= 2),
        }[policy]
        return (first, facts["used"], -len(node))

    for number, prompt in enumerate(prompts):
        nodes = path(prompt)
        hits.append(leading(set(cached), nodes))
        held = set(nodes[: hits[-1]])
        for node in nodes[: hits[-1]]:
            cached[node]["uses"] += 1
            cached[node]["used"] = number
            cached[node]["score"] = clock + cached[node]["uses"]
        for node in nodes[hits[-1] :]:
            if len(cached) >= capacity:
                free = [other for other in cached if other not in held and is_leaf(other, set(cached))]
                if not free:
                    break
                victim = min(free, key=key)
                clock = cached.pop(victim)["score"]
            cached[node] = {"uses": 1, "came": number, "used": number, "score": clock + 1}
            held.add(node)
    return hits


def vllm(
    prompts: Sequence[Prompt],
    inputs: Sequence[int],
    block_tokens: int,
    capacity: int,
    *,
    outputs: Sequence[int] = (),
    runs: Sequence[int] = (),
    answers: Sequence[Sequence[Node]] = (),
) -> list[int]:
    """Hits by request of a queue of slots, as a list of [key, users].

    outputs  tokens of the answers that take room; none: they take none
    runs     requests that have arrived when each one has ended; none: it ends at once
    answers  whole blocks that each answer leaves behind, the first of them may be the partial last block
    """
    slots: list[list] = [[None, 0] for _ in range(capacity)]
    queue = list(range(capacity))
    mine: dict[int, list[int]] = {}
    hits = []

    def holder(node: Node) -> int | None:
        return next((number for number, slot in enumerate(slots) if slot[0] == node), None)

    def name(slot: int, node: Node) -> None:
        older = holder(node)
        if older is not None:
            slots[older][0] = None
        slots[slot][0] = node

    def finish(request: int) -> None:
        taken = mine.pop(request)
        whole = inputs[request] // block_tokens
        for place, node in enumerate(answers[request] if answers else ()):
            if whole + place < len(taken) and len(taken) >= len(prompts[request]) and holder(node) is None:
                slots[taken[whole + place]][0] = node
        for slot in reversed(taken):
            slots[slot][1] -= 1
            if slots[slot][1] == 0:
                queue.append(slot)

    for number, prompt in enumerate(prompts):
        for request in sorted(mine, key=lambda other: (runs[other] if runs else other, other)):
            if (runs[request] if runs else request) < number:
                finish(request)
        nodes, taken = path(prompt), []
        limit = max(0, (inputs[number] - 1) // block_tokens)
        while len(taken) < limit and (slot := holder(nodes[len(taken)])) is not None:
            if slots[slot][1] == 0:
                queue.remove(slot)
            slots[slot][1] += 1
            taken.append(slot)
        hits.append(len(taken))
        output = outputs[number] if outputs else 0
        room = -(-(inputs[number] + output) // block_tokens) if outputs else len(nodes)
        for place in range(len(taken), max(room, len(nodes))):
            if not queue:
                break
            slot = queue.pop(0)
            slots[slot] = [None, 1]
            if place < inputs[number] // block_tokens:
                name(slot, nodes[place])
            taken.append(slot)
        mine[number] = taken
    return hits


def workload_aware(
    prompts: Sequence[Prompt],
    capacity: int,
    seconds: Sequence[float],
    categories: Sequence[int],
    *,
    life_s: float,
    strict: bool,
    fit_at: int,
) -> list[int]:
    """Hits by request, with the score of every cached block worked out anew for each eviction."""
    cached: dict[Node, tuple[int, int]] = {}  # order of last use
    last: dict[Node, tuple[float, int]] = {}  # time and category of the last touch
    records: dict[int, list[float]] = {}
    fitted: dict[int, tuple[float, float]] | None = None
    hits = []

    def score(node: Node, now: float) -> float:
        touched, kind = last[node]
        if fitted is None:
            return touched - now
        rate, p = fitted.get(kind, (1.0, 0.0))
        if kind not in fitted:
            return touched - now
        return (
            -math.inf
            if p == 0
            else math.log(p) + math.log(-math.expm1(-rate * life_s)) - rate * (now - touched)
        )

    for number, prompt in enumerate(prompts):
        now, kind, nodes = seconds[number], categories[number], path(prompt)
        if number == fit_at:
            fitted = {}
            for which, (touches, reused, total) in records.items():
                if reused and total:
                    fitted[which] = (reused / total, reused / touches)
                elif not reused:
                    fitted[which] = (0.0, 0.0)
        for node in nodes:
            if node in last:
                record = records.setdefault(last[node][1], [0.0, 0.0, 0.0])
                record[1] += 1
                record[2] += now - last[node][0]
            records.setdefault(kind, [0.0, 0.0, 0.0])[0] += 1
        hits.append(leading(set(cached), nodes))
        held = {node for node in nodes if node in cached}
        kept = len(nodes)
        for depth, node in enumerate(nodes):
            if node in cached:
                continue
            if len(cached) >= capacity:
                free = [
                    other
                    for other in cached
                    if other not in held and (not strict or is_leaf(other, set(cached)))
                ]
                heads: dict[int, Node] = {}
                for other in sorted(free, key=lambda other: cached[other]):
                    heads.setdefault(last[other][1], other)
                if not heads:
                    kept = depth
                    break
                del cached[min(heads.values(), key=lambda other: (score(other, now), -len(other)))]
            cached[node] = (number, 0)
            held.add(node)
        for node in nodes:
            last[node] = (now, kind)
        for place, node in enumerate(nodes[kept:]):
            if node in cached:  # beyond what fits: not held, so it may go while the request runs
                cached[node] = (number, place - 2 * len(nodes))
        for depth, node in enumerate(nodes[:kept]):
            cached[node] = (number, -depth)
    return hits


def flat_fifo(prompts: Sequence[Prompt], capacity: int) -> tuple[list[int], int]:
    """Hits by request, and evictions."""
    queue: list[Node] = []
    hits, evictions = [], 0
    for prompt in prompts:
        nodes = path(prompt)
        hits.append(leading(set(queue), nodes))
        for node in nodes:
            if node in queue or capacity == 0:
                continue
            if len(queue) == capacity:
                queue.pop(0)
                evictions += 1
            queue.append(node)
    return hits, evictions


def leaf_belady(prompts: Sequence[Prompt], capacity: int, *, bypass: bool) -> list[int]:
    """Hits by request."""
    paths = [path(prompt) for prompt in prompts]

    def next_use(node: Node, number: int) -> int:
        return next((later for later in range(number + 1, len(paths)) if node in paths[later]), len(paths))

    cached: set[Node] = set()
    hits = []
    for number, nodes in enumerate(paths):
        hits.append(leading(cached, nodes))
        held = set(nodes[: hits[-1]])
        for node in nodes[hits[-1] :]:
            if len(cached) >= capacity:
                free = [other for other in cached if other not in held and is_leaf(other, cached)]
                if not free:
                    break
                victim = max(free, key=lambda other: (next_use(other, number), len(other)))
                if bypass and next_use(victim, number) <= next_use(node, number):
                    break
                cached.remove(victim)
            cached.add(node)
            held.add(node)
    return hits


def most_hits(prompts: Sequence[Prompt], capacity: int) -> int:
    """Block hits that no policy can exceed: every choice of what to keep is tried."""
    states: dict[frozenset[Node], int] = {frozenset(): 0}
    for prompt in prompts:
        nodes = path(prompt)
        after: dict[frozenset[Node], int] = {}
        for cached, hits in states.items():
            found = hits + leading(set(cached), nodes)
            there = sorted(cached | set(nodes))
            for kept in range(min(capacity, len(there)) + 1):
                for chosen in combinations(there, kept):
                    if all(len(node) == 1 or node[:-1] in chosen for node in chosen):
                        key = frozenset(chosen)
                        after[key] = max(after.get(key, 0), found)
        states = after
    return max(states.values(), default=0)
