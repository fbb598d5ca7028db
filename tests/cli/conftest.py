"""Running the command line in this process, and small traces for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from servescope.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """What a command line left: exit code and both streams."""

    code: int
    out: str
    err: str


@pytest.fixture
def servescope(capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs `servescope ARGUMENTS…` and returns what it left."""

    def call(*arguments: object) -> Finished:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments], {"debug": False})
        out, err = capfd.readouterr()
        return Finished(code, out, err)

    return call


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A Mooncake file of 40 good rows."""
    path = tmp_path / "good.jsonl"
    rows = (
        {"timestamp": 50 * i, "input_length": 600 + i, "output_length": i, "hash_ids": [0, i + 1]}
        for i in range(40)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def bad_trace(trace: Path) -> Path:
    """The same with line 3 cut short and line 5 without a token."""
    lines = trace.read_text().splitlines()
    lines[2] = lines[2][:20]
    lines[4] = lines[4].replace('"input_length": 604', '"input_length": 0')
    path = trace.with_name("bad.jsonl")
    path.write_text("\n".join(lines) + "\n")
    return path
