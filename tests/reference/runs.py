"""Histograms by key as dicts, and how a run of them is coded."""

from __future__ import annotations

from collections import Counter


def number(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value % 0x80 + 0x80)
        value //= 0x80
    return bytes([*out, value])


def run(values: list[tuple[int, int]]) -> bytes:
    """The run of (key, bin) pairs."""
    out, last_key = b"", -1
    for key in sorted({key for key, _ in values}):
        out += number(key - last_key)
        last_key, last_bin = key, -1
        for where, times in sorted(Counter(b for k, b in values if k == key).items()):
            out += number(2 * (where - last_bin) + (times > 1))
            out += number(times) if times > 1 else b""
            last_bin = where
        out += b"\0"
    return out
