"""Writing whole files or nothing: a temporary name beside the target, renamed when complete."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PathLike = str | os.PathLike[str]
HASH_CHUNK_BYTES = 1 << 22


@contextmanager
def atomic(target: PathLike) -> Iterator[Path]:
    """Yield a temporary path; it becomes `target` (file or folder) only if the block ends well.

    A folder is made by the caller at the temporary path; an existing target folder is replaced.
    On any exception, an interrupt included, the temporary path is removed and the target is as before.
    """
    final = Path(target)
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        yield part
        if part.is_dir() and final.is_dir():
            old = final.with_name(f".{final.name}.{os.getpid()}.old")
            final.rename(old)
            try:
                part.rename(final)
            except BaseException:
                if not final.exists():
                    old.rename(final)
                raise
            shutil.rmtree(old)
        else:
            part.replace(final)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def write_atomic(target: PathLike, data: bytes) -> None:
    """Write `data` to `target`, whole or not at all."""
    with atomic(target) as part:
        part.write_bytes(data)


def refuse_target(target: PathLike, *, folder: bool, own: tuple[str, ...] = ()) -> None:
    """Raise UsageError where `target` cannot be written, or would destroy what we did not write.

    folder  whether a folder is to be written; an existing one is replaced, so it may hold only `own`
    own     name patterns of what an earlier run writes there
    """
    path = Path(target)
    _refuse_place(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(
            f"{target}: not a regular file; name one (a result cannot be renamed onto a device)."
        )
    if not folder:
        if path.is_dir():
            raise UsageError(f"{target}: a folder stands there; name a file.")
        return
    if path.exists() and not path.is_dir():
        raise UsageError(f"{target}: a file stands there; name a folder.")
    if path.resolve() == Path.cwd():
        raise UsageError(
            f"{target}: the folder is replaced as a whole; name a new one, not the current folder."
        )
    foreign = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    foreign = [name for name in foreign if not any(fnmatch(name, pattern) for pattern in own)]
    if foreign:
        raise UsageError(
            f"{target}: the folder would be replaced, but holds other files ({', '.join(foreign[:3])}); "
            "name a new or empty folder."
        )


def refuse_sources(target: PathLike, sources: Iterable[PathLike]) -> None:
    """Raise UsageError where `target` is one of the files or folders that the trace is read from."""
    for source in sources:
        if Path(source).exists() and Path(target).exists() and Path(source).samefile(target):
            raise UsageError(f"{target}: the trace is read from it; name another place to write.")


def _refuse_place(path: Path) -> None:
    """Raise UsageError where nothing can be written at `path`: before hours of reading, not after."""
    parent = path.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"{path}: cannot be written, since {parent} is a file.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: no permission to write in {parent}.")


def size_bytes(path: PathLike) -> int:
    """Bytes of a file, or of all files under a folder."""
    place = Path(path)
    if place.is_dir():
        return sum(entry.stat().st_size for entry in place.rglob("*") if entry.is_file())
    return place.stat().st_size


def sha256(path: PathLike) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
