"""What a format is: the types that every format file and the reader share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.errors import Fault, UsageError, shorten
from servescope.ledger import Ledger
from servescope.units import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt

    from servescope.formats.prompts import PromptEncoder
    from servescope.formats.source import Source
    from servescope.trace import Trace

MOST_BLOCK_TOKENS = 2**31 - 1  # counts of tokens are int32
SKIP_REMEDY = "Mend the row, or pass --on-bad-row skip to leave such rows out and count them."


@dataclass(frozen=True)
class ReadOptions:
    """How to read; every field has the meaning of the command-line option of its name.

    format                 name of the format, None = detect
    map                    canonical column (or `arrival`) -> source column, for `table`
    time_unit              s, ms, us or ns, where the source does not fix it
    block_tokens           tokens per prefix block, where the source does not fix it or differs
    on_bad_row             "strict" or "skip"
    cohorts, model_names   side tables of Chutes
    tokenizer              a local tokenizer file, for sources that hold text
    chars_per_token        declared ratio, where text is to be estimated without a tokenizer
    input_includes_cached  whether a log's input counts include cached tokens; None = not declared
    delta_prompts          input counts hold only what is new since the parent's answer
    reorder_window_s       disorder up to this many seconds is sorted while streaming in place
    progress               called with (bytes read so far, bytes in all, None where unknown)
    prompts                set by `fingerprint` alone: turns prompts into block ids while the text is
                           at hand, so that no text is handed on
    """

    format: str | None = None
    map: dict[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    block_tokens: int | None = None
    on_bad_row: str = "strict"
    cohorts: str | None = None
    model_names: str | None = None
    tokenizer: str | None = None
    chars_per_token: float | None = None
    input_includes_cached: bool | None = None
    delta_prompts: bool = False
    reorder_window_s: float = 0.0
    progress: Callable[[int, int | None], None] | None = None
    prompts: PromptEncoder | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a number out of range."""
        if self.block_tokens is not None and not 1 <= self.block_tokens <= MOST_BLOCK_TOKENS:
            raise UsageError(f"--block-tokens is {self.block_tokens}; give 1 to {MOST_BLOCK_TOKENS:,}.")
        if not 0 <= self.reorder_window_s <= LONGEST_S:
            raise UsageError(
                f"--reorder-window is {self.reorder_window_s:g}; give seconds from 0 to {LONGEST_S:,}."
            )


@dataclass(frozen=True)
class Sample:
    """The start of a source, for detection; nothing of it is kept.

    name             as the user gave it
    kind             "text", "parquet", "binary" or "folder"
    size_bytes       size as stored
    head             up to 64 KiB, decompressed
    objects          JSON objects of the first complete lines (or items of a JSON array), at most 20
    array            the text starts with "[": one JSON array
    header           fields of the first CSV line, [] if the text looks like JSON
    rows             the next CSV lines, at most 20, as fields
    parquet_columns  column names of a Parquet source
    parquet_meta     its key-value metadata
    files            names inside a folder, sorted, at most 1,000
    """

    name: str
    kind: str
    size_bytes: int = 0
    head: bytes = b""
    objects: list[dict[str, Any]] = field(default_factory=list)
    array: bool = False
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    parquet_columns: list[str] = field(default_factory=list)
    parquet_meta: dict[bytes, bytes] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


@dataclass
class Chunk:
    """Some consecutive rows of a source, as a format hands them over.

    lines     int64[n], physical line (or row, item) of each row, increasing
    columns   name -> array[n]: int64, int32 (sentinels of `schema` for null) or float64 (NaN for
              null) arrays; texts (categories, `source_id`) as lists of str or None, or Arrow strings.
              Canonical names, but for these, which the assembler turns into canonical ones:
                time_ns       int64, nanoseconds since `base_ns`
                completed_ns  int64, the same clock, null where the end is unknown
                own_key       the row's id that `parent_key` of other rows names: int64[n] or texts
                parent_key    id of the previous turn, null (sentinel, None) for a root
                session_key   id of the session, null for none: int64[n] or texts
    base_ns   what `time_ns` counts from, on the source's own clock; a Python int of any size
    blocks    uint64 values of all rows, one after the other; None where the source has no blocks
    block_lengths  int32[n], blocks of each row, -1 where the row states none
    faults    index into the rows -> what is wrong; the reader stops there or leaves the row out.
              A bad row still has a (meaningless) value in every column and a block_lengths entry
    items     source items the chunk stands for, where an item holds any number of requests
              (the ledger counts items, a fault stands for one); None: each row is an item
    """

    lines: npt.NDArray[np.int64]
    columns: dict[str, Any]
    base_ns: int = 0
    blocks: npt.NDArray[np.uint64] | None = None
    block_lengths: npt.NDArray[np.int32] | None = None
    faults: dict[int, Fault] = field(default_factory=dict)
    items: int | None = None

    @property
    def rows(self) -> int:
        """Number of rows, bad ones included."""
        return len(self.lines)


@dataclass
class Context:
    """What a format tells about a source while it reads; changed by the format.

    options       as the user gave them
    ledger        notes and repairs go here (rows read, kept and dropped are the reader's)
    decisions     how units, zones and ids were decided, one sentence each
    origin        kind of `trace.Origin`
    block_tokens  tokens per block, set by a format with blocks
    optional      columns of `Chunk` that count as absent if no row of the trace has a value
    state         what a format carries from one source to the next (ids seen, clocks)
    """

    options: ReadOptions
    ledger: Ledger = field(default_factory=Ledger)
    decisions: list[str] = field(default_factory=list)
    origin: str = "relative"
    block_tokens: int | None = None
    optional: frozenset[str] = frozenset()
    state: dict[str, Any] = field(default_factory=dict)

    def unit_of(self, field_names: str, fixed: str) -> str:
        """The unit of times: as the user declared it, else as the format fixes it. Records which."""
        unit = self.options.time_unit or fixed
        how = "declared" if self.options.time_unit else "fixed by the format"
        self.decide(f"{field_names} {'are' if ' and ' in field_names else 'is'} in {unit} ({how})")
        return unit

    def block_size(self, fixed: int) -> int:
        """Tokens per block: as the user declared it, else as the format fixes it. Changes the context."""
        self.block_tokens = self.options.block_tokens or fixed
        self.decide(f"a block holds {self.block_tokens} tokens")
        return self.block_tokens

    def decide(self, sentence: str) -> None:
        """Record a decision once. Changes the list."""
        if sentence not in self.decisions:
            self.decisions.append(sentence)


@dataclass(frozen=True)
class Format:
    """A source format: how to know it and how to read it.

    name      as in the table of `formats/__init__.py`
    title     one line for the documentation
    detect    Sample -> why it is this format, None if it is not
    chunks    rows of one source, in its order (most formats); reads text line by line
    open      all sources -> a trace streamed in place (Parquet); exactly one of the two is set
    """

    name: str
    title: str
    detect: Callable[[Sample], str | None]
    chunks: Callable[[Source, Context], Iterator[Chunk]] | None = None
    open: Callable[[list[Source], Context], Trace] | None = None


def fault(
    source: Source,
    line: int,
    field_name: str,
    value: object,
    reason: str,
    *,
    rule: str,
    remedy: str = SKIP_REMEDY,
) -> Fault:
    """A fault of one row; `value` is shortened, None means that there is no value to show."""
    shown = "" if value is None else shorten(value)
    return Fault(source.name, int(line), field_name, shown, reason, remedy, rule)


def texts(values: Any) -> pa.Array:
    """A column of texts (list of str or None, or Arrow strings) as an Arrow string array."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        joined = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return joined.cast(pa.string())
    return pa.array(values, pa.string())
