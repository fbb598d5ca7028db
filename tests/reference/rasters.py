"""Ranks inside a window, and the rows of a picked user or model, in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

DAY_US = 86_400_000_000
Row = dict[str, Any]
OTHER = {"user": "model", "model": "user"}


def inside(rows: list[Row], window: tuple[float, float]) -> list[Row]:
    """Rows of the window with user and model."""
    held = [r for r in rows if r["user"] is not None and r["model"] is not None]
    return [r for r in held if window[0] <= r["arrival_us"] < window[1]]


def ranked(rows: list[Row], kind: str, window: tuple[float, float]) -> list[tuple[str, int, int]]:
    """Name, requests, distinct others, by rank."""
    own = inside(rows, window)
    found = []
    for name in {r[kind] for r in own}:
        mine = [r for r in own if r[kind] == name]
        found.append((name, len(mine), len({r[OTHER[kind]] for r in mine})))
    return sorted(found, key=lambda item: (-item[1], item[0]))


def raster(rows: list[Row], kind: str, rank: int, window: tuple[float, float], most: int) -> list[Row]:
    """Rows of the user or model of that rank, with day and index."""
    order = ranked(rows, kind, window)
    if len(order) < rank:
        return []
    own = [r for r in inside(rows, window) if r[kind] == order[rank - 1][0]]
    start = own[0]["arrival_us"]
    first: dict[str, int] = {}
    for row in own:
        first.setdefault(row[OTHER[kind]], row["arrival_us"])
    names = sorted(first, key=lambda name: (first[name], name))
    if kind == "model" and len(names) > most:
        drawn = np.random.default_rng(20260504 + rank).permutation(len(names))[:most]
        names = [names[at] for at in sorted(drawn.tolist())]
    return [
        {
            "user": r["user"],
            "model": r["model"],
            "index": names.index(r[OTHER[kind]]),
            "us": r["arrival_us"],
            "day": (r["arrival_us"] - start) / DAY_US,
        }
        for r in own
        if r[OTHER[kind]] in names and r["arrival_us"] < start + 31 * DAY_US
    ]
