"""Whole files or nothing, whatever ends the writing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from servescope.files import atomic, sha256, write_atomic

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", [None, b"old"])
def test_an_interrupted_file_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException], old: bytes | None
) -> None:
    target = tmp_path / "out.txt"
    if old is not None:
        target.write_bytes(old)
    with pytest.raises(error), atomic(target) as part:
        part.write_bytes(b"half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ([] if old is None else ["out.txt"])
    assert old is None or target.read_bytes() == old


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_folder_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "a").write_text("old")
    with pytest.raises(error), atomic(target) as part:
        part.mkdir()
        (part / "b").write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in target.iterdir()] == ["a"]


def test_a_finished_folder_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "out"
    for name in ("a", "b"):
        with atomic(target) as part:
            part.mkdir()
            (part / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_made_for_a_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "deep" / "er" / "x.bin", b"abc")
    assert (tmp_path / "deep" / "er" / "x.bin").read_bytes() == b"abc"
    assert sha256(tmp_path / "deep" / "er" / "x.bin") == hashlib.sha256(b"abc").hexdigest()


def test_nothing_written_is_an_error_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic(tmp_path / "x"):
        pass
    assert list(tmp_path.iterdir()) == []
