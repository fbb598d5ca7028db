"""The canonical trace: an immutable handle that streams the same columns in time order.

A trace is metadata plus a tuple of parts (row groups or slices of arrays). Only this file and
the formats know Arrow; everything that computes sees `Batch`, which is plain arrays.
"""

from __future__ import annotations

import builtins
import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.category import Category, coded, count_texts
from servescope.kernels.nulls import filled, looked_up
from servescope.ledger import Ledger, Rejects
from servescope.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Each = Callable[[Callable[[int], Any], Iterable[int]], Iterable[Any]]

Column: TypeAlias = "pa.ChunkedArray | npt.NDArray[Any]"  # of a part, as it comes: see `FlatPart`
NO_BLOCKS = np.zeros(0, np.uint64)


class SourceFact(msgspec.Struct, frozen=True):
    """One source file as it was read.

    name     as the user gave it; "-" for standard input
    bytes    size as stored, compressed or not
    sha256   digest of those bytes; for Parquet streamed in place the digest of its footer
    covers   "file" or "footer": what the digest covers
    """

    name: str
    bytes: int
    sha256: str
    covers: str = "file"


class Origin(msgspec.Struct, frozen=True):
    """Where the trace's clock stands when the first request arrives.

    kind      calendar: real time; nominal: a shifted calendar that the source keeps (Chutes);
              relative: seconds since some start, the clock begins at 1970-01-01 00:00;
              none: the source has no arrival times
    first_ns  the first arrival as the source states it, nanoseconds (any size, 0 for none)
    """

    kind: str = "relative"
    first_ns: int = 0

    @property
    def clock_us(self) -> int:
        """Microseconds since 1970 on the trace clock at the first arrival."""
        if self.kind not in ("calendar", "nominal"):
            return 0
        return (self.first_ns + NS_PER_US // 2) // NS_PER_US


class TraceMeta(msgspec.Struct, frozen=True):
    """What a trace knows about itself beside its rows. Stored as JSON in canonical Parquet.

    format         name of the source format
    sources        the source files
    decisions      how units, zones, ids and the like were decided, one sentence each
    origin         the clock
    block_tokens   tokens per prefix block, None without blocks
    chained        whether equal block ids mean equal whole prefixes; None: unknown or no blocks
    columns        canonical columns that the source has (the others are null throughout)
    ledger         rows read, kept, dropped, repaired; notes
    session_names  the source's text ids of sessions, by session_id; empty where ids are numbers
    version        of this layout
    """

    format: str
    sources: list[SourceFact]
    decisions: list[str]
    origin: Origin
    columns: list[str]
    ledger: Ledger
    block_tokens: int | None = None
    chained: bool | None = None
    session_names: list[str] = []
    version: int = 1


@dataclass(frozen=True)
class Batch:
    """A run of consecutive rows as arrays; nulls are the sentinels of `schema`.

    start          `request_id` of the first row
    rows           number of rows
    columns        name -> array[rows]; int64, int32 (int16 columns too) or float64
    block_offsets  int64[rows + 1]; row i holds block_values[block_offsets[i]:block_offsets[i + 1]]
    block_values   uint64[n]
    block_null     bool[rows]: the row states no blocks (an empty list is not null)
    derived        what views made of the columns and share (`views.derived`); the one thing that changes
    """

    start: int
    rows: int
    columns: dict[str, npt.NDArray[np.generic]]
    block_offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    block_values: npt.NDArray[np.uint64] = field(default_factory=lambda: NO_BLOCKS)
    block_null: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    derived: dict[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        """The column's array. Raises KeyError if the batch was read without it."""
        return self.columns[name]


class Part(Protocol):
    """A contiguous run of rows that can be read by column: a row group, or a slice of arrays."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """The named canonical columns with their canonical Arrow types.

        Columns that the source lacks are all null. Categories may carry any dictionary.
        """
        ...

    def fingerprint(self) -> str:
        """A text that differs where the rows differ, so that a later run can know them again."""
        ...


@runtime_checkable
class CodedPart(Protocol):
    """A part with columns that follow from a category column: looked up once a text, not once a row."""

    @property
    def by_code(self) -> Mapping[str, tuple[str, Callable[[Category], npt.NDArray[np.int32]]]]:
        """Column -> the category column, and what gives its values by code, int32[texts + 1], null last."""
        ...


@runtime_checkable
class FlatPart(Protocol):
    """A part that has flat columns as the arrays of a batch at once, faster than by way of Arrow."""

    def flat(self, columns: Sequence[str]) -> dict[str, Column]:
        """The columns of `arrow`, those arrays as `Batch` has them that need no Arrow array in between."""
        ...


@dataclass(frozen=True)
class Trace:
    """A time-ordered request trace. Never modified; `batches` may be called many times.

    meta     source facts, decisions, ledger
    parts    the rows, in order
    rejects  faults of a skipping read (empty after a strict one)
    """

    meta: TraceMeta
    parts: tuple[Part, ...]
    rejects: Rejects = field(default_factory=Rejects)

    @property
    def rows(self) -> int:
        """Number of requests."""
        return self.starts[-1]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """`request_id` of each part's first row, then the number of rows."""
        return (0, *itertools.accumulate(part.rows for part in self.parts))

    def has(self, column: str) -> bool:
        """Whether the source states this column at all."""
        return column in self.meta.columns

    @cached_property
    def last_us(self) -> int:
        """The last arrival; reads its part. 0 without requests."""
        # parts may be empty (a row group without rows), so the last row can lie before the last part
        for index in reversed(range(len(self.parts))):
            if self.parts[index].rows:
                return int(self.batch(index, ["arrival_us"])["arrival_us"][-1])
        return 0

    @cached_property
    def _categories(self) -> dict[str, Category]:
        return {}

    def survey(self, columns: Sequence[str], *, each: Each = builtins.map) -> None:
        """Fix the codes of category columns: reads them once, and what is known already not again.

        each  runs a function over part numbers and yields what it returns, in their order

        Call it, `codes` or `names` before slices are scanned on threads; `numbering` does without.
        """
        missing: dict[int, list[str]] = {}
        for name in dict.fromkeys(columns):
            missing.setdefault(self.so_far(name).parts, []).append(name)
        missing.pop(len(self.parts), None)
        for first, names in missing.items():
            self._read_categories(names, first, each)

    def _read_categories(self, columns: Sequence[str], first: int, each: Each) -> None:
        def look(index: int) -> dict[str, list[tuple[pa.Array, npt.NDArray[np.int64]]]]:
            table = self.parts[index].arrow(columns)
            return {name: [count_texts(chunk) for chunk in table.column(name).chunks] for name in columns}

        for found in each(look, range(first, len(self.parts))):
            for name, chunks in found.items():
                for texts, counts in chunks:
                    self._categories[name].add(texts, counts)
                self._categories[name].parts += 1

    def so_far(self, column: str) -> Category:
        """What is known of a category column; `Category.parts` tells how much that is."""
        unknown = 0 if self.has(column) else len(self.parts)
        return self._categories.setdefault(column, Category(parts=unknown))

    def knows(self, column: str) -> bool:
        """Whether all texts of a category column are known."""
        return self.so_far(column).parts == len(self.parts)

    def take_over(self, known: Mapping[str, Category]) -> None:
        """Go on from categories as an earlier run knew them, over the same first parts."""
        self._categories.update(known)

    def category(self, column: str) -> Category:
        """The texts of a category column and how many rows have each; see `survey`."""
        self.survey([column])
        return self._categories[column]

    def codes(self, column: str) -> dict[str, int]:
        """Text -> dense code of a category column, by first part and place of appearance."""
        return {text: code for code, text in enumerate(self.names(column))}

    def names(self, column: str) -> list[str]:
        """Texts of a category column by code."""
        return self.category(column).names

    def arrow(self, columns: Sequence[str] = schema.NAMES) -> Iterator[pa.Table]:
        """The named columns as Arrow tables, one a part, in time order."""
        for part in self.parts:
            yield part.arrow(columns)

    def batches(self, columns: Sequence[str], *, first: int = 0, last: int | None = None) -> Iterator[Batch]:
        """The named columns as arrays, one batch a part, for parts `first` up to before `last`."""
        for index in range(first, len(self.parts) if last is None else last):
            yield self.batch(index, columns)

    def batch(self, index: int, columns: Sequence[str]) -> Batch:
        """The named columns of one part as arrays; from any thread, once their categories are surveyed."""
        categories = {name: self.category(name) for name in columns if name in schema.CATEGORIES}
        batch, _ = self.read(index, columns, categories)
        for name, (category, values) in self.by_code(index, columns).items():
            batch.columns[name] = looked_up(values(categories[category]), batch[category])
        return batch

    def read(
        self, index: int, columns: Sequence[str], categories: Mapping[str, Category]
    ) -> tuple[Batch, dict[str, Column]]:
        """One part by these categories, but for what follows from others (`by_code`), and as it came.

        Columns of other categories are left out of the batch. From any thread.
        """
        derived = self.by_code(index, columns)
        found = self._columns(index, [name for name in columns if name not in derived])
        return batch_of(found, self.parts[index].rows, self.starts[index], categories), found

    def _columns(self, index: int, columns: Sequence[str]) -> dict[str, Column]:
        part = self.parts[index]
        if isinstance(part, FlatPart):
            return part.flat(columns)
        table = part.arrow(columns)
        return dict(zip(table.column_names, table.columns, strict=True))

    def by_code(
        self, index: int, columns: Sequence[str]
    ) -> dict[str, tuple[str, Callable[[Category], npt.NDArray[np.int32]]]]:
        """Which of the columns follow from another of them in this part; see `CodedPart.by_code`."""
        part = self.parts[index]
        if not isinstance(part, CodedPart):
            return {}
        return {n: found for n, found in part.by_code.items() if n in columns and found[0] in columns}

    def with_meta(self, **changes: object) -> Trace:
        """The same rows with other metadata."""
        meta = msgspec.structs.replace(self.meta, **changes)
        return replace(self, meta=meta)


def _plain(column: pa.ChunkedArray, spec: schema.Column) -> npt.NDArray[np.generic]:
    if spec.arrow == pa.int16():
        column = column.cast(pa.int32())
    assert spec.dtype is not None and spec.null is not None
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values: npt.NDArray[np.generic] = schema.array_values(array, spec.dtype)
    bits = schema.known_bits(array)
    if bits is not None:
        return filled(values, bits, array.offset, spec.null)
    # kernels are compiled for arrays that can be written to: one copy here, none in each of the views
    return values if values.flags.writeable else values.copy()


def to_batch(table: pa.Table, start: int, categories: dict[str, Category]) -> Batch:
    """Arrays of a table of canonical columns. See `batch_of`."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return batch_of(columns, table.num_rows, start, categories)


def batch_of(
    columns: Mapping[str, Column], rows: int, start: int, categories: Mapping[str, Category]
) -> Batch:
    """A batch of canonical columns.

    columns     with canonical Arrow types, or arrays; text columns are left out of the batch
    rows        how many
    start       `request_id` of the first
    categories  by column, a text that is not in it reads as null; other category columns are left out
    """
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    blocks: dict[str, npt.NDArray[np.generic]] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            arrays[name] = column
        elif name == "block_ids":
            blocks = _blocks(column)
        elif name in categories:
            arrays[name] = coded(column, categories[name]).codes()
        elif name not in schema.CATEGORIES and schema.BY_NAME[name].dtype is not None:
            arrays[name] = _plain(column, schema.BY_NAME[name])
    return Batch(start, rows, arrays, **blocks)  # type: ignore[arg-type]


def _blocks(column: pa.ChunkedArray) -> dict[str, npt.NDArray[np.generic]]:
    lengths = [np.zeros(0, np.int64)]
    values = [NO_BLOCKS]
    nulls = [np.zeros(0, np.bool_)]
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        null = chunk.is_null().to_numpy(zero_copy_only=False)
        length = np.diff(offsets)
        if null.any() and length[null].any():  # Arrow allows hidden values under a null
            chunk = pa.array(chunk.to_pylist(), schema.BLOCKS)
            length = np.diff(chunk.offsets.to_numpy().astype(np.int64))
        lengths.append(length)
        values.append(chunk.flatten().to_numpy())
        nulls.append(null)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return {
        "block_offsets": offsets,
        "block_values": np.concatenate(values),
        "block_null": np.concatenate(nulls),
    }
