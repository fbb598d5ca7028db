"""Whole files or nothing, and never over what is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from servescope.errors import UsageError
from servescope.files import atomic, refuse_target, size_bytes, write_atomic


def names(folder: Path) -> list[str]:
    """What a folder holds, hidden entries included."""
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with atomic(target) as part:
        part.write_text("half")
        assert not target.exists()
    assert target.read_text() == "half"
    assert names(target.parent) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_any_exception_leaves_the_target_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(error), atomic(target) as part:
        part.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_folder_is_replaced_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for text in ("one", "two"):
        with atomic(target) as part:
            part.mkdir()
            (part / text).write_text(text)
        assert names(target) == [text]
    assert names(tmp_path) == ["folder"]


def test_a_folder_comes_back_where_the_last_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()
    rename = Path.rename

    def interrupted(self: Path, other: Path) -> Path:
        if self.name.endswith(".part"):
            raise KeyboardInterrupt
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic(target) as part:
        part.mkdir()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["folder"]


def test_write_atomic_and_size(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "one", b"123")
    write_atomic(tmp_path / "a" / "b" / "two", b"4567")
    assert size_bytes(tmp_path / "a" / "one") == 3
    assert size_bytes(tmp_path / "a") == 7


def test_targets_that_are_fine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "part-00000.parquet").touch()
    refuse_target(tmp_path / "file", folder=False)
    refuse_target(tmp_path / "new" / "deep", folder=False)
    refuse_target(tmp_path / "new" / "deep", folder=True)
    refuse_target(tmp_path / "mine", folder=True, own=("part-*.parquet",))


@pytest.mark.parametrize(
    ("target", "folder", "says"),
    [
        ("held", False, "a folder stands there"),
        ("held", True, r"other files \(letter\.txt\)"),
        ("file", True, "a file stands there"),
        ("file/inside", False, "is a file"),
        ("pipe", False, "not a regular file"),
    ],
)
def test_targets_that_are_refused(tmp_path: Path, target: str, folder: bool, says: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "letter.txt").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=says):
        refuse_target(tmp_path / target, folder=folder, own=("report.html",))


def test_the_current_folder_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for target in (".", str(tmp_path), f"../{tmp_path.name}"):
        with pytest.raises(UsageError, match="current folder"):
            refuse_target(target, folder=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_place_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="no permission"):
        refuse_target(tmp_path / "file", folder=False)
