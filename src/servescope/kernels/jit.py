"""The one decorator of all kernels, with a disk cache that knows when a helper changed.

Numba notices an edit in the file of a cached function, but not in a file whose helpers it
inlined. So the cache folder of a file is named by a hash of that file and of all of this package
that it imports, directly or not: an edit there starts a fresh folder (design, section 4), and an
edit elsewhere costs no compilation.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

PACKAGE = Path(__file__).resolve().parent.parent
KERNEL_FOLDERS = ("kernels", "formats", "sessions", "views", "cache", "routing", "generate")
# only those of the module's own level: what a function or the type checker imports is not inlined
_IMPORT = re.compile(r"^(?:from|import) (servescope[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)


def sources_hash(package: Path = PACKAGE) -> str:
    """Hex digest over the text of every file that may hold a kernel, in path order."""
    digest = hashlib.sha256()
    for folder in KERNEL_FOLDERS:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def imported(source: Path, package: Path = PACKAGE) -> set[Path]:
    """Files of the package that `source` imports at its own level, directly or not, and itself."""
    found: set[Path] = set()
    queue = [source]
    while queue:
        path = queue.pop()
        if path not in found:
            found.add(path)
            queue += _imports(path, package)
    return found


@cache
def _imports(source: Path, package: Path) -> tuple[Path, ...]:
    files = []
    for module, names in _IMPORT.findall(source.read_text(encoding="utf-8")):
        place = package.joinpath(*module.split(".")[1:])
        files += [place.with_suffix(".py"), place / "__init__.py"]
        files += [place / f"{name}.py" for name in re.findall(r"\w+", names)]
    return tuple(path for path in files if path.is_file())


@cache
def cache_folder(source: Path, package: Path = PACKAGE) -> str:
    """Where the compiled kernels of exactly this text of `source` and its imports are kept.

    `SERVESCOPE_CACHE_DIR` moves it; the default follows the XDG rule (`~/.cache/servescope`).
    """
    root = os.environ.get("SERVESCOPE_CACHE_DIR")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(base) / "servescope")
    digest = hashlib.sha256()
    for path in sorted(imported(source, package)):
        digest.update(str(path.relative_to(package) if path.is_relative_to(package) else path.name).encode())
        digest.update(path.read_bytes())
    return str(Path(root) / "kernels" / digest.hexdigest()[:16])


def kernel(function: F) -> F:
    """Compile `function` without the GIL and cache it on disk under `cache_folder()`.

    Numba picks the folder while it decorates, so its global setting is changed only for that
    moment and other users of Numba in the process keep theirs.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """As `kernel`, for a small helper in the loop of a kernel: always compiled into its callers.

    A call hands over every array as seven values, and left to itself LLVM inlines the smallest helpers
    only: twice the time for a helper of five lines that is called once a row.
    """
    return _compiled(function, forceinline=True)


def borrowing_kernel(function: F) -> F:
    """As `inlined`, for a function that makes no array and returns none.

    Numba then counts no references to the arrays that it is given. A step of a cache policy gets many
    arrays for little work, and counting took two thirds of its time: without it SIEVE ran at 34 instead
    of 12 M requests/s. All that it calls must be of the same kind.
    """
    return _compiled(function, forceinline=True, _nrt=False)


def kernel_of_functions(function: F) -> F:
    """Compile `function`, which takes compiled functions as arguments, without the GIL.

    Not kept on disk: Numba finds no such call in its disk cache in a later process (design, section 4).
    """
    return cast("F", numba.njit(nogil=True)(function))


def _compiled(function: F, **options: Any) -> F:
    config: Any = numba.config
    kept = config.CACHE_DIR
    config.CACHE_DIR = cache_folder(Path(function.__code__.co_filename).resolve())
    try:
        return cast("F", numba.njit(nogil=True, cache=True, **options)(function))
    finally:
        config.CACHE_DIR = kept
