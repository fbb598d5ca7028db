"""Columns of the Chutes trace as canonical ones: types, token ranges, the user key, side tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.category import text_buffers
from servescope.errors import DataError, UsageError
from servescope.formats.parquet import ParquetFile, category, coded, indexed
from servescope.kernels.nulls import fill, filled, narrowed
from servescope.kernels.room import grown
from servescope.kernels.texts import Texts, ended, pieces
from servescope.units import NS_PER, ns_per

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.category import Category

INT32_MAX = 2**31 - 1  # the smallest 32-bit number stands for null in arrays, so the range is symmetric
TOKENS = {"input_tokens": "it", "output_tokens": "ot", "cached_tokens": "ct"}
# canonical column -> columns of the source that it is made of
NEEDS: dict[str, tuple[str, ...]] = {
    "source_id": ("invocation_id",),
    "endpoint": ("function_name",),
    "model": ("chute_id",),
    "user": ("user_id", "rehash_round"),
    "instance": ("instance_id",),
    "cohort": ("user_id", "rehash_round"),
    **{canonical: (name,) for canonical, name in TOKENS.items()},
    "ttft_s": ("ttft",),
    "completed_us": ("completed_at",),
    "cache_scope": ("chute_id",),
}
ALL_SOURCES = {name for names in NEEDS.values() for name in names}
KEY_SLOTS = 1 << 26  # (id, round) pairs of a row group up to this many are found by a table


@dataclass(frozen=True)
class Cohorts:
    """Months of first appearance.

    keys    user keys `ID@ROUND`
    months  int16[keys + 1], by code; -1 at the end, for a key that is not there
    coded   what `by_code` found last: the category, how many of its texts, their months (and room)
    """

    keys: Texts
    months: npt.NDArray[np.int16]
    coded: list[tuple[Category, int, npt.NDArray[np.int32]]] = field(default_factory=list)

    def by_code(self, users: Category) -> npt.NDArray[np.int32]:
        """Months by user code, int32[users + 1], null where the table does not name the key, and last.

        A code is looked up once, also where the category has grown since the last call.
        """
        held, known, months = self.coded[0] if self.coded else (users, 0, np.zeros(0, np.int32))
        if held is not users:
            known, months = 0, np.zeros(0, np.int32)
        many = len(users.texts)
        if many > known or not len(months):
            months = grown(months, many + 1)
            months[known:] = schema.NULL_INT32
            for low, data, offsets in pieces(users.texts.data, users.texts.ends, known):
                codes = self.keys.find(data, offsets)
                here = months[low : low + len(codes)]
                here[:] = self.months[codes]
                here[here < 0] = schema.NULL_INT32
            self.coded[:] = [(users, many, months)]
        return months[: many + 1]

    def find(self, keys: pa.Array) -> npt.NDArray[np.int16]:
        """Months of Arrow strings, int16[n], -1 where the table does not name the key."""
        return self.months[self.keys.find(*text_buffers(keys))]


def cohorts_of(keys: Texts, months: npt.NDArray[np.int16]) -> Cohorts | None:
    """The table of user keys and their months, int16[keys]; None where it is empty."""
    return Cohorts(keys, np.append(months, np.int16(-1))) if len(keys) else None


@dataclass(frozen=True)
class SideTables:
    """What stands beside the trace.

    models   chute id -> model name
    cohorts  of user keys
    """

    models: dict[str, str] = field(default_factory=dict)
    cohorts: Cohorts | None = None

    @cached_property
    def names(self) -> tuple[Texts, pa.Array]:
        """Chute ids, and their model names by code."""
        ids = Texts()
        ids.add(*text_buffers(pa.array(self.models, pa.string())))
        return ids, pa.array(self.models.values(), pa.string())

    @cached_property
    def fingerprint(self) -> str:
        """A text that differs where the tables differ."""
        digest = hashlib.sha256(repr(sorted(self.models.items())).encode())
        if self.cohorts is not None:
            for array in (self.cohorts.keys.data, self.cohorts.keys.ends, self.cohorts.months):
                digest.update(array.tobytes())
        return digest.hexdigest()


def check_types(file: ParquetFile) -> None:
    """Raises DataError for a column whose type cannot be read as what the format says it is."""
    kinds: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
        **dict.fromkeys(("it", "ot", "ct"), ("a whole number", _is_number)),
        "ttft": ("a number", _is_number),
        "rehash_round": ("a whole number", _is_round),
        "started_at": ("a timestamp", _is_time),
        "completed_at": ("a timestamp", _is_time),
        **dict.fromkeys(("chute_id", "function_name", "user_id", "instance_id", "invocation_id"), _PLAIN),
    }
    for name in file.columns.names:
        expected, good = kinds.get(name, ("anything", lambda kind: True))
        found = file.columns.field(name).type
        if not good(found):
            raise DataError(
                f'{file.source.name}: field "{name}" is of type {found}, {expected} was expected. '
                "Cast the column, or read the file as a table with --format table and --map."
            )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def _is_round(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_integer(kind) or pa.types.is_null(kind))


_PLAIN = ("a text or a whole number", _is_plain)


def time_unit(kind: pa.DataType, declared: str | None, name: str) -> str:
    """Unit of a time column: a timestamp has its own, a number needs a declared one (UsageError)."""
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    if declared is None:
        raise UsageError(
            f"{name}: the times are plain numbers; declare their unit with --time-unit s|ms|us|ns."
        )
    ns_per(declared)
    return declared


def times(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Times as int64[n] in the column's own unit, null = the sentinel of `schema`."""
    whole = _whole_numbers(column)
    values, bits = schema.array_values(whole, np.dtype(np.int64)), schema.known_bits(whole)
    return values if bits is None else filled(values, bits, whole.offset, schema.NULL_INT64)


def moments(column: pa.ChunkedArray, first: int, unit: str) -> npt.NDArray[np.int64]:
    """Whole microseconds from `first` to each moment, both in `unit`; half rounds up: int64[n].

    Null is the sentinel. May write to the column's memory, in which a column that was just read ends.
    """
    return _moments(_whole_numbers(column), first, unit)


def _whole_numbers(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece, of type int64."""
    whole = _one(column)
    return whole.view(pa.int64()) if pa.types.is_timestamp(whole.type) else whole.cast(pa.int64())


def since(column: pa.ChunkedArray, first: int, unit: str) -> pa.Array:
    """As `moments`, an Arrow array."""
    whole = _whole_numbers(column)
    return _known_as(whole, _moments(whole, first, unit))


def _moments(whole: pa.Array, first: int, unit: str) -> npt.NDArray[np.int64]:
    if whole.null_count == len(whole):
        return np.full(len(whole), schema.NULL_INT64)
    values = _own(whole, np.dtype(np.int64))
    values -= first
    per = NS_PER[unit]
    if per > 1_000:
        values *= per // 1_000
    elif per < 1_000:
        values += 500
        values //= 1_000
    return _with_nulls(values, whole, schema.NULL_INT64)


def seconds(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Numbers as float64[n], NaN for null. May write to the column's memory, as `moments`."""
    whole = _one(column if column.type == pa.float64() else column.cast(pa.float64()))
    if whole.null_count == len(whole):
        return np.full(len(whole), np.nan)
    return _with_nulls(_own(whole, np.dtype(np.float64)), whole, np.nan)


def token_counts(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """As `tokens`, null is the sentinel: int32[n]."""
    whole = _one(column)
    counts = _narrowed(whole) if whole.type == pa.int64() else None
    if counts is not None:
        return counts
    whole = tokens(column)
    return _with_nulls(_own(whole, np.dtype(np.int32)), whole, schema.NULL_INT32)


def _own(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values of a flat array that can be written to: Arrow's memory, or a copy."""
    values = schema.array_values(array, dtype)
    return values if values.flags.writeable else values.copy()


def _with_nulls(values: npt.NDArray[Any], array: pa.Array, null: float) -> npt.NDArray[Any]:
    """The values, modified: null where the array is."""
    bits = schema.known_bits(array)
    if bits is not None:
        fill(values, bits, array.offset, null)
    return values


def _narrowed(whole: pa.Array) -> npt.NDArray[np.int32] | None:
    """Values of int64 as int32[n], null is the sentinel; None where one does not fit."""
    values = schema.array_values(whole, np.dtype(np.int64))
    return narrowed(values, schema.known_bits(whole), whole.offset, schema.NULL_INT32)


def _known_as(array: pa.Array, values: npt.NDArray[Any]) -> pa.Array:
    """Values of another flat array that are null where it is."""
    if not array.null_count:
        return pa.array(values)
    if array.offset:
        return pa.array(values, mask=array.is_null().to_numpy(zero_copy_only=False))
    buffers = [array.buffers()[0], pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers, array.null_count)


def bad_tokens(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Rows whose token count is no whole number within 32 bits (null, zero and negative are kept)."""
    if pa.types.is_integer(column.type) and column.type.bit_width < 32:
        return np.zeros(0, np.int64)
    wide = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    good = np.isnan(wide) | ((np.abs(wide) <= INT32_MAX) & (np.floor(wide) == wide))
    return np.flatnonzero(~good)


def tokens(column: pa.ChunkedArray) -> pa.Array:
    """Token counts as int32, checked before; NaN in a column of doubles is null."""
    whole = _one(column)
    counts = _narrowed(whole) if whole.type == pa.int64() else None
    if counts is not None:
        return _known_as(whole, counts)
    if pa.types.is_floating(whole.type):
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(None, whole.type), whole)
    return whole.cast(pa.int32())


def texts(column: pa.ChunkedArray, names: tuple[Texts, pa.Array] | None = None) -> pa.DictionaryArray:
    """A category column; texts that `SideTables.names` knows are replaced."""
    indices, found = indexed(column)
    if names is not None and len(names[0]):
        codes = names[0].find(*text_buffers(found))
        unknown = codes < 0
        if unknown.any():
            found = pc.coalesce(names[1].take(pa.array(codes, mask=unknown)), found)
        else:
            found = names[1].take(pa.array(codes))
    return pa.DictionaryArray.from_arrays(indices, found, safe=False)


def user_keys(table: pa.Table) -> pa.DictionaryArray:
    """User keys `ID@ROUND`.

    Without rotation rounds in the source the id alone is the key; a null round reads `ID@`.
    """
    if "rehash_round" not in table.column_names:
        return pa.DictionaryArray.from_arrays(*indexed(table.column("user_id")))
    rounds = table.column("rehash_round")
    if not rounds.null_count and table.num_rows:
        whole = _one(rounds)
        values = schema.array_values(whole, np.dtype(whole.type.to_pandas_dtype()))
        if values.min() == values.max():  # nearly always: a round lasts three months
            indices, names = indexed(table.column("user_id"))
            # no check of the indices: they come from the reading of the column
            return pa.DictionaryArray.from_arrays(indices, _keys(names, f"@{values[0]}"), safe=False)
    return _user_keys(table)


def _keys(names: pa.Array, ending: str) -> pa.Array:
    """Texts with an ending."""
    try:
        if not names.null_count:
            data, ends = ended(*text_buffers(names), ending.encode())
            return pa.StringArray.from_buffers(len(names), pa.py_buffer(ends), pa.py_buffer(data))
    except OverflowError:  # Arrow says it better
        pass
    return pc.binary_join_element_wise(names, ending, "")


def _user_keys(table: pa.Table) -> pa.DictionaryArray:
    """User keys of rows of several rounds."""
    ids, names = coded(table.column("user_id"))
    rounds, stated = coded(table.column("rehash_round"))
    width = len(stated) + 1  # one more for a null round
    pairs = ids.astype(np.int64) * width + np.where(rounds < 0, len(stated), rounds)
    codes, used = _dense(pairs, ids < 0, len(names) * width)
    suffix = pa.concat_arrays([stated, pa.array([""], pa.string())])
    keys = pc.binary_join_element_wise(names.take(pa.array(used // width)), suffix.take(used % width), "@")
    return category(codes, keys)


def _dense(
    pairs: npt.NDArray[np.int64], null: npt.NDArray[np.bool_], slots: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Dense codes of pair numbers (-1 where `null`), and the numbers in use, by code."""
    if slots <= KEY_SLOTS:
        mark = np.zeros(slots + 1, np.bool_)
        pairs = np.where(null, slots, pairs) if null.any() else pairs
        mark[pairs] = True
        mark[slots] = False
        used = np.flatnonzero(mark)
        rank = np.full(slots + 1, schema.NULL_CODE, np.int32)
        rank[used] = np.arange(len(used), dtype=np.int32)
        return rank[pairs], used
    encoded = pa.array(pairs, mask=null).dictionary_encode()
    codes = encoded.indices.fill_null(schema.NULL_CODE).to_numpy(zero_copy_only=False)
    return codes.astype(np.int32, copy=False), encoded.dictionary.to_numpy(zero_copy_only=False)


def cohorts(users: pa.DictionaryArray, table: Cohorts) -> pa.Array:
    """Cohort of every row, int16, null where the side table does not name the user key."""
    months = table.find(users.dictionary)
    return pa.array(months, mask=months < 0).take(users.indices)


def sources_of(columns: Sequence[str], have: Sequence[str]) -> list[str]:
    """Columns of the source that the canonical `columns` are made of, as far as it has them."""
    needed = {name for column in columns for name in NEEDS.get(column, ())}
    return [name for name in have if name in needed]


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
