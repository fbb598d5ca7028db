"""The columns of a canonical trace, their types and their null values (design, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NULL_INT64 = -(2**63)  # how a null looks in an array; Arrow and Parquet hold real nulls
NULL_INT32 = -(2**31)
NULL_CODE = -1  # a null category

CATEGORY = pa.dictionary(pa.int32(), pa.string())
BLOCKS = pa.list_(pa.field("element", pa.uint64(), nullable=False))


@dataclass(frozen=True)
class Column:
    """One canonical column.

    name      as in Parquet and in `Batch.columns`
    arrow     Arrow type on disk
    dtype     NumPy dtype in a batch (None: not available as an array); categories are int32 codes
    null      the value that stands for null in a batch
    nullable  whether the column may hold nulls
    meaning   one line for the documentation, with the unit
    """

    name: str
    arrow: pa.DataType
    dtype: np.dtype[Any] | None
    null: float | int | None
    nullable: bool
    meaning: str


def _int64(name: str, nullable: bool, meaning: str) -> Column:
    return Column(name, pa.int64(), np.dtype(np.int64), NULL_INT64, nullable, meaning)


def _int32(name: str, meaning: str) -> Column:
    return Column(name, pa.int32(), np.dtype(np.int32), NULL_INT32, True, meaning)


def _int16(name: str, meaning: str) -> Column:
    return Column(name, pa.int16(), np.dtype(np.int32), NULL_INT32, True, meaning)


def _category(name: str, meaning: str) -> Column:
    return Column(name, CATEGORY, np.dtype(np.int32), NULL_CODE, True, meaning)


COLUMNS: tuple[Column, ...] = (
    _int64("request_id", False, "0, 1, 2 … in (arrival, source order): the stable key"),
    Column("source_id", pa.string(), None, None, True, "the source's own id of the request"),
    _int64("arrival_us", False, "microseconds since the trace's first request"),
    _category("endpoint", "API called: chat, chat_stream, completion, completion_stream, …"),
    _category("request_type", "kind of traffic: text, search, image, file, api, thinking, coder, …"),
    _category("model", "model that was asked for"),
    _category("user", "user key; for rotated ids `ID@ROUND`"),
    _category("instance", "serving instance that answered"),
    _int16("cohort", "month of the user's first appearance, from a side table"),
    _int32("input_tokens", "prompt tokens, cached ones included; unknown is null, never 0"),
    _int32("output_tokens", "generated tokens; unknown is null, never 0"),
    _int32("cached_tokens", "prompt tokens served from a prefix cache; unknown is null, never 0"),
    Column("ttft_s", pa.float64(), np.dtype(np.float64), np.nan, True, "time to first token, seconds"),
    _int64("completed_us", True, "end of the request, microseconds, same origin as arrival"),
    _category("status", "ok, failed or unknown; null where the source has no outcome"),
    _int64("source_row", False, "line or row in the source, 1-based"),
    _category("cache_scope", "what a cached prefix may not cross; null = one scope"),
    _int64("session_id", True, "session, as the source states it"),
    _int64("parent_id", True, "`request_id` of the previous turn, as the source states it"),
    _int32("turn", "turn in the session, from 1"),
    _int16("image_count", "images in the prompt"),
    Column("block_ids", BLOCKS, None, None, True, "prefix blocks in prompt order"),
)
BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
NAMES: tuple[str, ...] = tuple(BY_NAME)
CATEGORIES: tuple[str, ...] = tuple(c.name for c in COLUMNS if c.arrow == CATEGORY)
# a column that `sessions` adds behind the canonical ones; who reads the file as a trace passes over it
PREFIX_TOKENS = "prefix_tokens"
ADDED: dict[str, pa.Field] = {PREFIX_TOKENS: pa.field(PREFIX_TOKENS, pa.int64())}
REQUIRED: tuple[str, ...] = tuple(c.name for c in COLUMNS if not c.nullable)


def arrow_schema(columns: tuple[str, ...] | list[str] = NAMES) -> pa.Schema:
    """Arrow schema of the named canonical columns, in canonical order."""
    return pa.schema(
        [pa.field(c.name, c.arrow, nullable=c.nullable) for c in COLUMNS if c.name in set(columns)]
    )


def array_values(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of a flat Arrow array of that width, anything where it is null; a view.

    It can be written to where Arrow's memory can.
    """
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def known_bits(array: pa.Array) -> npt.NDArray[np.uint8] | None:
    """Arrow's bitmap of what is not null, its first bit at `array.offset`; None: nothing is null."""
    return np.frombuffer(array.buffers()[0], np.uint8) if array.null_count else None
