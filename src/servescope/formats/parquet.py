"""Parquet files as sources: opened once, checked, read by row group; broken ones become DataErrors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope import schema
from servescope.errors import DataError
from servescope.formats.source import open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.formats.source import Source
    from servescope.trace import SourceFact, Trace

UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)  # what a broken file makes Arrow raise
PIECE_BYTES = 1 << 12
ASCII = 0x80  # bytes below it stand for a letter each
FOOTER_TAIL_BYTES = 8  # the footer's length and the magic follow it


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file whose footer has been read.

    source    where it lies
    metadata  its footer
    columns   its columns as Arrow types
    texts     columns that are read as dictionaries, because they hold texts
    """

    source: Source
    metadata: pq.FileMetaData
    columns: pa.Schema
    texts: tuple[str, ...] = ()

    @property
    def groups(self) -> int:
        """Number of row groups."""
        return int(self.metadata.num_row_groups)

    def group_rows(self, group: int) -> int:
        """Rows of a row group."""
        return int(self.metadata.row_group(group).num_rows)

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """The named columns of a row group, texts as dictionaries. Raises DataError for broken pages.

        The file is opened anew with the known footer: readers on several threads share nothing.
        """
        try:
            with pq.ParquetFile(
                self.source.path, metadata=self.metadata, read_dictionary=list(self.texts)
            ) as file:
                table = file.read_row_group(group, columns=list(columns))
            _check_texts(table)
        except UNREADABLE as error:
            raise broken(self.source, error) from error
        return table

    def bounds(self, group: int, columns: Sequence[str]) -> dict[str, tuple[object, object] | None]:
        """Smallest and largest value of flat columns in a row group, as stored; None where not stated.

        Raises DataError for a broken footer.
        """
        stated = self.statistics(group, columns)
        return {
            name: (s.min, s.max) if s is not None and s.has_min_max else None for name, s in stated.items()
        }

    def statistics(self, group: int, columns: Sequence[str]) -> dict[str, pq.Statistics | None]:
        """What the footer states of the values of flat columns in a row group; None: nothing.

        Raises DataError for a broken footer.

        Asked for an entry itself, Arrow ends the whole process where it is broken (a C++ exception that
        its Python layer does not expect); on the way to a row it raises. So it is sent to a row first: of
        the file, with all of these columns' entries at once, and if that fails, of each row group, so that
        the error comes with the group.
        """
        places = [self._leaves.index(name) for name in columns]
        if not self._all_found(tuple(columns)):
            self._try_first_row(group, columns)
        entries = self.metadata.row_group(group)
        found = {name: entries.column(place) for name, place in zip(columns, places, strict=True)}
        for name, place in zip(columns, places, strict=True):
            if found[name].physical_type != self.metadata.schema.column(place).physical_type:
                self._try_first_row(group, [name])  # its statistics end the process, too
                del found[name]
        return {name: found[name].statistics if name in found else None for name in columns}

    def _all_found(self, columns: tuple[str, ...]) -> bool:
        """Whether Arrow finds the columns' entries of all row groups; tried once."""
        if columns not in self._found:
            try:
                # with pre_buffer it notes the places of all of them before it reads the first row
                with pq.ParquetFile(self.source.path, metadata=self.metadata, pre_buffer=True) as file:
                    next(file.iter_batches(batch_size=1, columns=list(columns)), None)
                self._found[columns] = True
            except UNREADABLE:
                self._found[columns] = False
        return self._found[columns]

    @cached_property
    def _found(self) -> dict[tuple[str, ...], bool]:
        return {}

    def _try_first_row(self, group: int, columns: Sequence[str]) -> None:
        """Raise DataError where Arrow cannot make sense of the columns' entries in the footer."""
        try:
            with pq.ParquetFile(self.source.path, metadata=self.metadata) as file:
                next(file.iter_batches(batch_size=1, row_groups=[group], columns=list(columns)), None)
        except UNREADABLE as error:
            raise broken(self.source, error) from error

    @cached_property
    def _leaves(self) -> list[str]:
        """Paths of the physical columns; a flat column's path is its name."""
        return [self.metadata.schema.column(i).path for i in range(len(self.metadata.schema))]

    def fingerprint(self, group: int) -> str:
        """Digest of a row group: its footer's entry (sizes, bounds, encodings, not places) and pieces of
        its bytes, `PIECE_BYTES` from the start, the middle and the end.

        Hashing all bytes of a year would take longer than looking at them. Raises DataError for a file
        that is cut.
        """
        facts = self.metadata.row_group(group).to_dict()
        columns = facts["columns"]
        starts = [c["dictionary_page_offset"] or c["data_page_offset"] for c in columns]
        ends = [s + c["total_compressed_size"] for s, c in zip(starts, columns, strict=True)]
        for column in columns:
            for name in list(column):
                if name == "file_offset" or name.endswith("_page_offset"):
                    del column[name]
        digest = hashlib.sha256(repr((facts["num_rows"], columns)).encode())
        first, last = min(starts), max(ends)
        try:
            with self.source.path.open("rb") as file:
                for place in (first, (first + last) // 2, max(first, last - PIECE_BYTES)):
                    file.seek(place)
                    digest.update(file.read(min(PIECE_BYTES, last - place)))
        except OSError as error:
            raise broken(self.source, error) from error
        return digest.hexdigest()

    def digest(self) -> SourceFact:
        """SHA-256 of the footer where the file itself is streamed, of all bytes for a temporary copy.

        A copy of standard input is gone later, so its digest cannot be completed then.
        """
        if str(self.source.path) != self.source.name:
            return self.source.digest()
        return self.source.digest(footer_bytes=self.metadata.serialized_size + FOOTER_TAIL_BYTES)


def open_parquet(source: Source) -> ParquetFile:
    """Read the footer of a Parquet file. Raises DataError for a file that is cut or no Parquet."""
    try:
        with pq.ParquetFile(source.path) as file:
            metadata, columns = file.metadata, file.schema_arrow
        texts = tuple(field.name for field in columns if pa.types.is_string(field.type))
    except UNREADABLE as error:
        raise broken(source, error) from error
    return ParquetFile(source, metadata, columns, texts)


def _check_texts(table: pa.Table) -> None:
    """Raises ArrowException for dictionary indices out of range and for texts that are no UTF-8.

    Arrow takes both from the pages unseen; numbers can hold nothing that is invalid.
    """
    for column in table.columns:
        if pa.types.is_string(column.type):
            column.validate(full=True)
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            if not _is_ascii(chunk.dictionary):
                chunk.dictionary.validate(full=True)
            indices = schema.array_values(chunk.indices, np.dtype(np.uint32))
            if len(indices) and indices.max() >= len(chunk.dictionary):  # ten times as fast as `validate`
                chunk.validate(full=True)  # some null's index, or an error


def _is_ascii(texts: pa.Array) -> bool:
    """Whether the texts hold ASCII alone, so are UTF-8; ten times as fast as `validate`."""
    data = texts.buffers()[-1]
    return data is None or not data.size or bool(np.frombuffer(data, np.uint8).max() < ASCII)


def broken(source: Source, error: Exception) -> DataError:
    """The error for a file that Arrow cannot read."""
    first = (str(error).strip().splitlines() or ["unreadable"])[0].rstrip(".")
    return DataError(
        f"{source.name}: broken Parquet file ({first}). It may have been cut short; fetch or write it again."
    )


def with_full_digests(trace: Trace) -> Trace:
    """The same trace whose source digests cover whole files (for `convert`).

    A source that was streamed in place carries the digest of its footer only, since hashing 91 GB takes
    longer than looking at it. Reads every such file once.
    """
    sources = [
        open_source(fact.name).digest() if fact.covers == "footer" else fact for fact in trace.meta.sources
    ]
    return trace.with_meta(sources=sources)


def indexed(column: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Indices (int32, null for null) and texts of a column of texts or numbers.

    Texts may hold some that no row uses; they are distinct.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks == 0:
        return pa.array([], pa.int32()), pa.array([], pa.string())
    chunks = column.unify_dictionaries().chunks if column.num_chunks > 1 else column.chunks
    whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    indices, texts = whole.indices, whole.dictionary
    if indices.type != pa.int32():
        indices = indices.cast(pa.int32())
    return indices, texts if texts.type == pa.string() else texts.cast(pa.string())


def coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """A column of texts or numbers as int32[n] codes (-1 = null) and its texts by code.

    Texts may hold some that no row uses; they are distinct.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks > 1:
        column = column.unify_dictionaries()
    if column.num_chunks == 0:
        return np.zeros(0, np.int32), pa.array([], pa.string())
    dictionary = column.chunk(0).dictionary.cast(pa.string())
    pieces = []
    for chunk in column.chunks:
        indices = chunk.indices
        if indices.null_count:
            indices = indices.fill_null(schema.NULL_CODE)
        pieces.append(indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), dictionary


def category(codes: npt.NDArray[np.int32], texts: pa.Array) -> pa.DictionaryArray:
    """A canonical category column from int32[n] codes (-1 = null) and distinct texts."""
    null = codes == schema.NULL_CODE
    indices = pa.array(codes, mask=null) if null.any() else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, texts)
