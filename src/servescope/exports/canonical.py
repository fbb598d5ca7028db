"""Canonical Parquet: holds everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servescope import schema
from servescope.exports.target import Export
from servescope.trace_write import write_canonical

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Trace


def write(trace: Trace, path: Path) -> list[str]:
    """One Parquet file, as `convert` writes it."""
    write_canonical(trace, path)
    return []


EXPORT = Export("canonical", "servescope's own Parquet", frozenset(schema.NAMES), write)
