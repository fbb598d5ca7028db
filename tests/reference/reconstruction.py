"""Session reconstruction in plain Python, from rows as dicts in time order: a deque a user and model."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

Row = dict[str, Any]
TEXT_ENDPOINTS = ("chat", "chat_stream", "completion", "completion_stream")


def takes_part(row: Row, held: set[str]) -> bool:
    """Whether a row has all that the rule asks of the columns that the source has."""
    if any(name in held and row[name] is None for name in ("model", "user", "instance")):
        return False
    if row["input_tokens"] is None or row["output_tokens"] is None:
        return False
    return "endpoint" not in held or row["endpoint"] in TEXT_ENDPOINTS


def chains(
    rows: list[Row],
    *,
    look_back: int = 10,
    parent_completed: bool = False,
    max_gap_us: int | None = None,
    unique: bool = False,
) -> dict[int, Row]:
    """Session, parent, turn, prefix and number of candidates by `request_id`, for rows that take part."""
    recent: dict[Any, deque[Row]] = defaultdict(lambda: deque(maxlen=look_back))
    continued: set[int] = set()
    found: dict[int, Row] = {}
    for row in rows:
        window = recent[row["user"], row["model"]]
        fitting = []
        for earlier in window:
            if earlier["request_id"] in continued or earlier["endpoint"] != row["endpoint"]:
                continue
            if earlier["input_tokens"] + earlier["output_tokens"] >= row["input_tokens"]:
                continue
            if max_gap_us is not None and row["arrival_us"] - earlier["arrival_us"] > max_gap_us:
                continue
            end = earlier["completed_us"]
            if parent_completed and (end is None or end > row["arrival_us"]):
                continue
            fitting.append(earlier)
        totals = [earlier["input_tokens"] + earlier["output_tokens"] for earlier in fitting]
        own = row["request_id"]
        if fitting and not (unique and totals.count(max(totals)) > 1):
            parent = fitting[totals.index(max(totals))]
            continued.add(parent["request_id"])
            before = found[parent["request_id"]]
            link = {"session": before["session"], "parent": parent["request_id"], "turn": before["turn"] + 1}
            found[own] = {**link, "prefix_tokens": max(totals), "candidates": len(fitting)}
        else:
            found[own] = {
                "session": own,
                "parent": -1,
                "turn": 1,
                "prefix_tokens": 0,
                "candidates": len(fitting),
            }
        window.append(row)
    return found
