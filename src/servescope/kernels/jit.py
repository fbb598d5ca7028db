"""The one decorator of all kernels, with a disk cache that knows when a helper changed.

Numba notices an edit in the file of a cached function, but not in a file whose helpers it
inlined. So the cache folder is named by a hash of all sources that may hold kernels: any edit
there starts a fresh folder (design, section 4).
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

PACKAGE = Path(__file__).resolve().parent.parent
KERNEL_FOLDERS = ("kernels", "formats", "sessions", "views", "cache", "routing", "generate")


def sources_hash(package: Path = PACKAGE) -> str:
    """Hex digest over the text of every file that may hold a kernel, in path order."""
    digest = hashlib.sha256()
    for folder in KERNEL_FOLDERS:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> str:
    """Where compiled kernels of exactly these sources are kept.

    `SERVESCOPE_CACHE_DIR` moves it; the default follows the XDG rule (`~/.cache/servescope`).
    """
    root = os.environ.get("SERVESCOPE_CACHE_DIR")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(base) / "servescope")
    return str(Path(root) / f"kernels-{sources_hash()}")


def kernel(function: F) -> F:
    """Compile `function` without the GIL and cache it on disk under `cache_folder()`.

    Numba picks the folder while it decorates, so its global setting is changed only for that
    moment and other users of Numba in the process keep theirs.
    """
    config: Any = numba.config
    kept = config.CACHE_DIR
    config.CACHE_DIR = cache_folder()
    try:
        return cast("F", numba.njit(nogil=True, cache=True)(function))
    finally:
        config.CACHE_DIR = kept
