"""Records by bucket, in memory or in files; those of a bucket keep the order of the trace."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError
from servescope.sessions.eligible import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

Ints = npt.NDArray[np.int64]

PIECE_ROWS = 1 << 14  # rows linked at a time: records and links stay in the cache
RECORD_BYTES = 8 * FIELDS
BUCKET_ROWS = 1 << 18  # rows of the trace for which a bucket is made …
MOST_BUCKETS = 256  # … and as many files are open at once
BUFFER_BYTES = 1 << 18


def buckets_of(rows: int) -> int:
    """Buckets for a trace of so many rows. Links do not depend on their number."""
    return max(1, min(MOST_BUCKETS, rows // BUCKET_ROWS))


class Spool(Protocol):
    """Records by bucket, complete."""

    def pieces(self, bucket: int) -> Iterator[tuple[int, Ints]]:
        """Records of a bucket in order, int64[n, FIELDS] with n up to PIECE_ROWS, and where each begins."""
        ...

    def keep(self, bucket: int, begin: int, records: Ints, made: Ints) -> None:
        """Put what was made of a piece in its place, int64[n, FIELDS] both."""
        ...


@dataclass
class MemorySpool:
    """Records in memory. Changed by `append` and `keep`.

    held   by bucket, views of …
    calls  the records of each call of `append`
    """

    held: list[list[Ints]]
    calls: list[Ints] = field(default_factory=list)

    def append(self, records: Ints, edges: Ints) -> None:
        """Add records by bucket: int64[n, FIELDS] and their bounds, int64[buckets + 1]."""
        self.calls.append(records)
        for bucket, held in enumerate(self.held):
            if edges[bucket] < edges[bucket + 1]:
                held.append(records[edges[bucket] : edges[bucket + 1]])

    def pieces(self, bucket: int) -> Iterator[tuple[int, Ints]]:
        """See `Spool`."""
        begin = 0
        for records in self.held[bucket]:
            for low in range(0, len(records), PIECE_ROWS):
                piece = records[low : low + PIECE_ROWS]
                yield begin, piece
                begin += len(piece)

    def keep(self, bucket: int, begin: int, records: Ints, made: Ints) -> None:
        """See `Spool`."""
        records[:] = made

    def records(self, call: int) -> Ints:
        """See `Gathered.records`."""
        return self.calls[call]


@dataclass(frozen=True)
class FileSpool:
    """Records in files of a folder that all who work on them share.

    folder  where they are
    rows    of each bucket
    """

    folder: str
    rows: tuple[int, ...]

    def path(self, bucket: int) -> Path:
        """File of a bucket. Raises DataError where it is not here."""
        path = path_of(self.folder, bucket)
        if not path.is_file():
            raise DataError(
                f"{path}: it was written, but is not here. Name an output (-o) in a folder that all nodes of "
                "the cluster share."
            )
        return path

    def pieces(self, bucket: int) -> Iterator[tuple[int, Ints]]:
        """See `Spool`."""
        with self.path(bucket).open("rb") as file:
            for begin in range(0, self.rows[bucket], PIECE_ROWS):
                many = min(PIECE_ROWS, self.rows[bucket] - begin)
                yield begin, _read(file, begin, many)

    def keep(self, bucket: int, begin: int, records: Ints, made: Ints) -> None:
        """See `Spool`."""
        with self.path(bucket).open("r+b") as file:
            file.seek(begin * RECORD_BYTES)
            file.write(made.data)


def path_of(folder: str | Path, bucket: int) -> Path:
    """Where the records of a bucket are."""
    return Path(folder) / f"bucket-{bucket:04d}.records"


def _read(file: Any, begin: int, many: int) -> Ints:
    """Records of an open file from `begin` on: int64[many, FIELDS]."""
    records = np.empty((many, FIELDS), np.int64)
    file.seek(begin * RECORD_BYTES)
    if file.readinto(records.data.cast("B")) != records.nbytes:
        raise DataError(f"{file.name}: cut short. Is the disk full? TMPDIR names another place.")
    return records


@dataclass
class FileWriter:
    """Writes the files of a `FileSpool`; a context manager. Changed by `append`.

    folder   exists
    buckets  how many
    counts   for each call of `append`, int64[buckets] records
    """

    folder: Path
    buckets: int
    counts: list[Ints] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _files: list[Any] = field(default_factory=list)

    def __enter__(self) -> FileWriter:
        for bucket in range(self.buckets):
            file = path_of(self.folder, bucket).open("wb", buffering=BUFFER_BYTES)
            self._files.append(self._stack.enter_context(file))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def append(self, records: Ints, edges: Ints) -> None:
        """See `MemorySpool.append`."""
        for bucket, file in enumerate(self._files):
            if edges[bucket] < edges[bucket + 1]:
                file.write(records[edges[bucket] : edges[bucket + 1]].data)
        self.counts.append(np.diff(edges))

    def spool(self) -> FileSpool:
        """What was written, once the context is left."""
        rows = np.zeros(self.buckets, np.int64)
        for counts in self.counts:
            rows += counts
        return FileSpool(str(self.folder), tuple(rows.tolist()))


@dataclass
class Gathered:
    """Reads records back in the order in which they were appended; a context manager.

    spool   the files
    counts  as `FileWriter.counts`
    """

    spool: FileSpool
    counts: list[Ints]
    _stack: ExitStack = field(default_factory=ExitStack)
    _files: list[Any] = field(default_factory=list)
    _before: Ints = field(init=False)

    def __post_init__(self) -> None:
        self._before = np.cumsum([np.zeros(len(self.spool.rows), np.int64), *self.counts], axis=0)

    def __enter__(self) -> Gathered:
        for bucket in range(len(self.spool.rows)):
            # unbuffered: what is read is a few records here and there
            self._files.append(self._stack.enter_context(self.spool.path(bucket).open("rb", buffering=0)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def records(self, call: int) -> Ints:
        """What stands where the records of a call of `append` stood: int64[n, FIELDS], by bucket."""
        begins, many = self._before[call].tolist(), self.counts[call].tolist()
        pieces = [_read(file, b, n) for file, b, n in zip(self._files, begins, many, strict=True) if n]
        return np.concatenate(pieces) if pieces else np.zeros((0, FIELDS), np.int64)
