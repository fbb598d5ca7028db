"""Stated sessions in plain Python, from rows as dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]


def sessions(rows: list[Row]) -> dict[str, Any]:
    """Counts of `session_summary` and the rows of `turns`."""
    members: dict[int, list[Row]] = defaultdict(list)
    children: Counter[int] = Counter()
    for row in rows:
        if row["session_id"] is not None:
            members[row["session_id"]].append(row)
        if row["parent_id"] is not None:
            children[row["parent_id"]] += 1
    turns = [len(own) for own in members.values()]
    return {
        "sessions": len(members),
        "requests": sum(turns),
        "requests_without_session": len(rows) - sum(turns),
        "single_turn_sessions": turns.count(1),
        "cut_at_start_sessions": sum((own[0]["turn"] or 0) > 1 for own in members.values()),
        "branching_parents": sum(count > 1 for count in children.values()),
        "branches": sum(count - 1 for count in children.values()),
        "turns": sorted(Counter(turns).items()),
    }


def gaps(rows: list[Row]) -> dict[str, list[int | None]]:
    """Think times and start gaps of follow-ups in microseconds, None where unknown."""
    found: dict[str, list[int | None]] = {"think_time": [], "start_gap": []}
    for row in rows:
        if row["parent_id"] is not None:
            parent = rows[row["parent_id"]]
            end = parent["completed_us"]
            found["think_time"].append(None if end is None else row["arrival_us"] - end)
            found["start_gap"].append(row["arrival_us"] - parent["arrival_us"])
    return found


def growth(rows: list[Row]) -> dict[str, Any]:
    """Counts of `growth`, and the new tokens of follow-ups that are known and not negative."""
    new, first, shortened, unknown = [], [], 0, 0
    for row in rows:
        if row["parent_id"] is not None:
            parent = rows[row["parent_id"]]
            parts = (row["input_tokens"], parent["input_tokens"], parent["output_tokens"])
            if None in parts:
                unknown += 1
            elif parts[0] < parts[1] + parts[2]:
                shortened += 1
            else:
                new.append(parts[0] - parts[1] - parts[2])
        elif row["session_id"] is not None:
            if (row["turn"] or 1) > 1:
                unknown += 1
            else:
                first.append(row["input_tokens"])
    known = [tokens for tokens in first if tokens is not None]
    return {
        "first_turns": len(first),
        "follow_ups": sum(row["parent_id"] is not None for row in rows),
        "new_tokens": sum(new) + sum(known),
        "new_known": len(new) + len(known),
        "shortened": shortened,
        "unknown": unknown + len(first) - len(known),
        "new": new,
    }
