"""An edit in a kernel's file, or in what it imports, gives the kernel cache a new folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from servescope.kernels import jit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "servescope"
    shutil.copytree(jit.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def folder_of(package: Path) -> Callable[[str], str]:
    """The cache folder that a process would use for a file of the package as it stands now."""

    def folder(name: str) -> str:
        jit.cache_folder.cache_clear()
        jit._imports.cache_clear()
        return jit.cache_folder(package / name, package)

    return folder


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "\n# edited\n")


VIEW = "views/pair_map.py"


def test_the_same_sources_have_the_same_folder(folder_of: Callable[[str], str]) -> None:
    assert folder_of(VIEW) == folder_of(VIEW) != folder_of("views/key_stats.py")


@pytest.mark.parametrize("helper", [VIEW, "kernels/histogram.py", "kernels/jit.py"])
def test_an_edit_in_a_helper_gives_a_new_folder(
    package: Path, folder_of: Callable[[str], str], helper: str
) -> None:
    before = folder_of(VIEW)
    edit(package / helper)
    assert folder_of(VIEW) != before


def test_an_edit_in_a_helper_of_a_helper_gives_a_new_folder(
    package: Path, folder_of: Callable[[str], str]
) -> None:
    (package / "kernels" / "low.py").write_text("LOW = 1\n")
    (package / "kernels" / "middle.py").write_text("from servescope.kernels.low import (\n    LOW,\n)\n")
    (package / "views" / "high.py").write_text("from servescope.kernels import middle, jit\n")
    before = folder_of("views/high.py")
    edit(package / "kernels" / "low.py")
    assert folder_of("views/high.py") != before


@pytest.mark.parametrize("other", ["cli/show.py", "views/key_stats.py"])
def test_an_edit_elsewhere_keeps_the_folder(
    package: Path, folder_of: Callable[[str], str], other: str
) -> None:
    before = folder_of(VIEW)
    edit(package / other)
    assert folder_of(VIEW) == before


def test_every_edit_where_kernels_may_be_changes_the_hash_of_all(package: Path) -> None:
    before = jit.sources_hash(package)
    edit(package / "cli" / "show.py")
    assert jit.sources_hash(package) == before
    edit(package / "formats" / "chained.py")
    assert jit.sources_hash(package) != before


def test_every_file_with_a_kernel_is_watched() -> None:
    for path in jit.PACKAGE.rglob("*.py"):
        if "\n@kernel\n" in path.read_text(encoding="utf-8"):
            assert path.relative_to(jit.PACKAGE).parts[0] in jit.KERNEL_FOLDERS, path.name
