"""An edit in any file that may hold a kernel gives the kernel cache a new folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from servescope.kernels import jit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "servescope"
    shutil.copytree(jit.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def folder_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """The cache folder that a process would use for the package as it stands now."""

    def folder() -> str:
        monkeypatch.setattr(jit.sources_hash, "__defaults__", (package,))
        jit.cache_folder.cache_clear()
        try:
            return jit.cache_folder()
        finally:
            jit.cache_folder.cache_clear()

    return folder


def test_the_same_sources_have_the_same_folder(folder_of: object) -> None:
    assert folder_of() == folder_of()  # type: ignore[operator]


@pytest.mark.parametrize(
    "helper", ["kernels/hashmap.py", "kernels/jit.py", "formats/chained.py", "views/sketch.py"]
)
def test_an_edit_in_a_helper_gives_a_new_folder(package: Path, folder_of: object, helper: str) -> None:
    before = folder_of()  # type: ignore[operator]
    path = package / helper
    path.write_text(path.read_text() + "\n# edited\n")
    assert folder_of() != before  # type: ignore[operator]


def test_a_new_or_renamed_file_gives_a_new_folder(package: Path, folder_of: object) -> None:
    before = folder_of()  # type: ignore[operator]
    (package / "kernels" / "hashmap.py").rename(package / "kernels" / "renamed.py")
    assert folder_of() != before  # type: ignore[operator]


def test_files_without_kernels_keep_the_folder(package: Path, folder_of: object) -> None:
    before = folder_of()  # type: ignore[operator]
    path = package / "cli" / "show.py"
    path.write_text(path.read_text() + "\n# edited\n")
    assert folder_of() == before  # type: ignore[operator]


def test_every_file_with_a_kernel_is_watched() -> None:
    for path in jit.PACKAGE.rglob("*.py"):
        if "\n@kernel\n" in path.read_text(encoding="utf-8"):
            assert path.relative_to(jit.PACKAGE).parts[0] in jit.KERNEL_FOLDERS, path.name
