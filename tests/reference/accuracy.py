"""A rule's links beside true ones in plain Python: dicts, sets and one loop over the requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]
Link = tuple[int, int, int, int]  # session, parent, turn, prefix_tokens


def active(rows: list[Row], session: list[int]) -> list[int]:
    """Sessions of the row's user and model that have begun and not ended; 0 for rows of no session."""
    spans: dict[Any, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if session[at] >= 0:
            spans[row["user"], row["model"], session[at]].append(at)
    return [
        sum(key[:2] == (row["user"], row["model"]) and min(s) <= at <= max(s) for key, s in spans.items())
        if session[at] >= 0
        else 0
        for at, row in enumerate(rows)
    ]


def distance(rows: list[Row], part: list[bool], child: int, parent: int) -> int:
    """Requests of the user and model that take part, from the parent on; -1 for another user or model."""

    def key(at: int) -> Any:
        return rows[at]["user"], rows[at]["model"]

    if key(child) != key(parent):
        return -1
    return sum(part[at] and key(at) == key(child) for at in range(parent, child))


def measure(rows: list[Row], rule: list[Link], truth: list[Link]) -> dict[str, Any]:
    """Counts of links, tokens and sessions over the rows that take part in both."""
    part = [a[0] >= 0 and b[0] >= 0 for a, b in zip(rule, truth, strict=True)]
    counts = Counter[str]()
    grown: set[int] = set()
    for at, row in enumerate(rows):
        if not part[at]:
            continue
        parent, chosen = truth[at][1], rule[at][1]
        if parent >= 0 and not part[parent]:
            counts["parents_outside"] += 1
            parent = -1
        reuse = 0
        if parent >= 0:
            above = rows[parent]
            texts = [above["input_tokens"], above["output_tokens"], row["input_tokens"]]
            if None not in texts:
                history = texts[0] + texts[1]
                reuse = history if history <= texts[2] else 0
                alike = all(above[name] == row[name] for name in ("user", "model", "endpoint"))
                if history < texts[2] and alike and parent not in grown:
                    grown.add(parent)
        counts["requests"] += 1
        counts["input_tokens"] += row["input_tokens"] or 0
        counts["links_true"] += parent >= 0
        counts["links_rule"] += chosen >= 0
        counts["links_right"] += parent >= 0 and parent == chosen
        counts["exact"] += parent == chosen
        counts["same"] += chosen >= 0 and part[chosen] and truth[chosen][0] == truth[at][0]
        counts["reuse_tokens_true"] += reuse
        counts["reuse_tokens_rule"] += rule[at][3]
        counts["error"] += abs(rule[at][3] - reuse)
    counts["findable"] = len(grown)
    pairs = [(rule[at][0], truth[at][0]) for at in range(len(rows)) if part[at]]
    by_rule, by_true = defaultdict(Counter[int]), defaultdict(Counter[int])
    for own, true in pairs:
        by_rule[own][true] += 1
        by_true[true][own] += 1
    counts["pure"] = sum(max(c.values()) for c in by_rule.values())
    counts["complete"] = sum(max(c.values()) for c in by_true.values())
    counts["merges"] = sum(len(c) - 1 for c in by_rule.values())
    counts["splits"] = sum(len(c) - 1 for c in by_true.values())
    counts["sessions_rule"], counts["sessions_true"] = len(by_rule), len(by_true)
    counts["sessions_equal"] = sum(len(c) == 1 and len(by_true[next(iter(c))]) == 1 for c in by_rule.values())
    return dict(counts)
