"""No command writes over the trace that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import servescope as ss
from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished


@pytest.mark.parametrize("command", [("convert",), ("sessions",), ("export", "--to", "csv", "--lossy")])
def test_a_trace_is_not_written_over(
    servescope: Callable[..., Finished], trace: Path, command: tuple[str, ...]
) -> None:
    before = trace.read_bytes()
    link = trace.with_name("link.jsonl")
    link.symlink_to(trace)
    for out in (trace, link):
        done = servescope(*command, trace, "-o", out)
        assert (done.code, done.out) == (2, "")
        assert "the trace is read from it" in done.err
    assert trace.read_bytes() == before


def test_nor_a_folder_of_one(servescope: Callable[..., Finished], trace: Path) -> None:
    shards = trace.with_name("shards")
    assert servescope("convert", trace, "-o", shards, "--shard-rows", 10).code == 0
    held = sorted(path.name for path in shards.iterdir())
    for command in (("sessions", shards, "--tables"), ("convert", shards, "--shard-rows", 5, "-o")):
        done = servescope(*command, shards)
        assert done.code == 2 and "the trace is read from it" in done.err
    assert sorted(path.name for path in shards.iterdir()) == held


def test_nor_from_python(trace: Path) -> None:
    with pytest.raises(UsageError, match="is read from it"):
        ss.convert(trace, out=trace)
