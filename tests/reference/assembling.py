"""The slow twin of assembling: a list of dicts, sorted by Python."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any


def microseconds(ns: int) -> int:
    """Half rounds up."""
    return floor(Fraction(ns, 1000) + Fraction(1, 2))


def trace(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in time order, ties in source order, times counted from the first one.

    rows  good ones in source order: `ns` (absolute), `end` (absolute or None), `line`, `tokens`,
          `model`, `blocks` (list or None), `session` (text or None)
    """
    ordered = sorted(rows, key=lambda row: row["ns"])  # stable
    first = ordered[0]["ns"]
    sessions: dict[str, int] = {}
    last: dict[str, tuple[int, int]] = {}
    out = []
    for index, row in enumerate(ordered):
        key = row["session"]
        before = last.get(key) if key is not None else None
        turn = before[1] + 1 if before else 1
        if key is not None:
            sessions.setdefault(key, len(sessions))
            last[key] = (index, turn)
        out.append(
            {
                "request_id": index,
                "arrival_us": microseconds(row["ns"] - first),
                "completed_us": None if row["end"] is None else microseconds(row["end"] - first),
                "source_row": row["line"],
                "input_tokens": row["tokens"],
                "model": row["model"],
                "block_ids": row["blocks"],
                "session_id": None if key is None else sessions[key],
                "parent_id": before[0] if before else None,
                "turn": None if key is None else turn,
            }
        )
    return out
