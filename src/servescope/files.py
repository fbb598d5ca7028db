"""Writing whole files or nothing: a temporary name beside the target, renamed when complete."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HASH_CHUNK_BYTES = 1 << 22


@contextmanager
def atomic(target: str | Path) -> Iterator[Path]:
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
            part.rename(final)
            shutil.rmtree(old)
        else:
            part.replace(final)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def write_atomic(target: str | Path, data: bytes) -> None:
    """Write `data` to `target`, whole or not at all."""
    with atomic(target) as part:
        part.write_bytes(data)


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
