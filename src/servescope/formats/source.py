"""Opening a source: a file, several, a folder, standard input, a remote path; compressed or not."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from servescope.errors import DataError, UsageError
from servescope.files import sha256
from servescope.trace import SourceFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READ_BYTES = 4 << 20
HEAD_BYTES = 64 << 10
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
REMOTE = ("s3://", "gs://", "gcs://", "r2://", "az://", "hf://", "http://", "https://")


@dataclass(frozen=True)
class Source:
    """One source of bytes.

    name         as the user gave it, used in messages
    path         local file or folder (a temporary copy for standard input and remote paths)
    compression  "gzip", "zstd", "bz2" or None
    """

    name: str
    path: Path
    compression: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder."""
        return self.path.is_dir()

    @property
    def size_bytes(self) -> int:
        """Size as stored, 0 for a folder."""
        return 0 if self.is_folder else self.path.stat().st_size

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """Up to `size` (64 KiB) decompressed bytes."""
        with self._opened() as stream:
            return self._read(stream, size)

    def blocks(self, progress: Callable[[int, int | None], None] | None = None) -> Iterator[bytes]:
        """Decompressed bytes in pieces of a few MB. Raises DataError for a broken file."""
        total = self.size_bytes
        with pa.OSFile(str(self.path)) as raw:
            stream = pa.CompressedInputStream(raw, self.compression) if self.compression else raw
            while block := self._read(stream, READ_BYTES):
                if progress:
                    progress(raw.tell(), total)
                yield block

    def digest(self, *, footer_bytes: int = 0) -> SourceFact:
        """Name, size and SHA-256 of the stored bytes (all, or the last `footer_bytes`)."""
        if self.is_folder:
            files = [p for p in sorted(self.path.rglob("*")) if p.is_file()]
            joined = hashlib.sha256()
            for path in files:
                joined.update(f"{path.relative_to(self.path).as_posix()} {sha256(path)}\n".encode())
            return SourceFact(self.name, sum(p.stat().st_size for p in files), joined.hexdigest())
        if footer_bytes:
            with self.path.open("rb") as file:
                file.seek(-min(footer_bytes, self.size_bytes), 2)
                tail = file.read()
            return SourceFact(self.name, self.size_bytes, hashlib.sha256(tail).hexdigest(), "footer")
        return SourceFact(self.name, self.size_bytes, sha256(self.path))

    def _opened(self) -> pa.NativeFile:
        raw = pa.OSFile(str(self.path))
        return pa.CompressedInputStream(raw, self.compression) if self.compression else raw

    def _read(self, stream: pa.NativeFile, size: int) -> bytes:
        try:
            return stream.read(size)  # type: ignore[no-any-return]
        except OSError as error:
            raise DataError(
                f"{self.name}: the {self.compression or 'file'} data is broken: {error}. "
                "Fetch or compress the file again."
            ) from error


def open_source(name: str) -> Source:
    """The source that `name` stands for: a path, "-" for standard input, or a remote address.

    Raises UsageError where there is no such file or no access.
    """
    if name == "-":
        return _with_compression(name, _copy_of_stdin())
    if name.startswith(REMOTE):
        return _with_compression(name, _copy_of_remote(name))
    path = Path(name)
    if not path.exists():
        raise UsageError(f"{name}: no such file or folder.")
    if path.is_dir():
        return Source(name, path)
    try:
        return _with_compression(name, path)
    except PermissionError as error:
        raise UsageError(f"{name}: no permission to read it.") from error


def _with_compression(name: str, path: Path) -> Source:
    with path.open("rb") as file:
        start = file.read(4)
    compression = next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), None)
    return Source(name, path, compression)


def _temporary(suffix: str = "") -> Path:
    folder = Path(tempfile.mkdtemp(prefix="servescope-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / f"source{suffix}"


def _copy_of_stdin() -> Path:
    """Standard input as a file: detection, Parquet and digests need to seek."""
    path = _temporary()
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, READ_BYTES)
    return path


def _copy_of_remote(name: str) -> Path:
    """A local copy, fetched by DuckDB's own readers (its `httpfs` speaks S3, GCS, HTTP and HF)."""
    import duckdb

    path = _temporary(Path(name.split("?")[0]).suffix)
    try:
        row = duckdb.connect().execute("SELECT content FROM read_blob(?)", [name]).fetchone()
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise UsageError(
            f"{name}: DuckDB could not read it ({first}). Check the address and the credentials, "
            "or fetch the file and give its local path."
        ) from error
    if row is None:
        raise UsageError(f"{name}: no such remote file.")
    path.write_bytes(row[0])
    return path
