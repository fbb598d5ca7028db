"""Arrays as parts of a trace: slices, sentinels, categories, blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from servescope import arrays, schema
from servescope.arrays import ArrayPart, Columns, category_array

if TYPE_CHECKING:
    import pytest

OFFSETS = np.array([0, 2, 2, 2, 5])
BLOCKS = np.array([1, 2**64 - 1, 7, 8, 9], np.uint64)


def columns(**other: object) -> Columns:
    """Four rows with a bit of everything."""
    values = {
        "request_id": np.arange(4),
        "arrival_us": np.array([0, 5, 5, 9]),
        "model": np.array([2, schema.NULL_CODE, 0, 2], np.int32),
        "input_tokens": np.array([4, schema.NULL_INT32, 0, 7], np.int32),
        "cohort": np.array([1, schema.NULL_INT32, 3, 4], np.int32),
        "ttft_s": np.array([0.5, np.nan, 1.0, 2.0]),
        "completed_us": np.array([schema.NULL_INT64, 6, 7, 8]),
    }
    return Columns(4, values, {"model": ["a", "unused", "c"]}, **other)  # type: ignore[arg-type]


def test_sentinels_become_nulls_and_types_are_canonical() -> None:
    table = ArrayPart(columns(), 0, 4).arrow(schema.NAMES)
    assert table.schema.equals(schema.arrow_schema())
    rows = table.to_pylist()
    assert [row["input_tokens"] for row in rows] == [4, None, 0, 7]
    assert [row["model"] for row in rows] == ["c", None, "a", "c"]
    assert [row["cohort"] for row in rows] == [1, None, 3, 4]
    assert [row["ttft_s"] for row in rows] == [0.5, None, 1.0, 2.0]
    assert [row["completed_us"] for row in rows] == [None, 6, 7, 8]
    assert table.column("user").null_count == table.column("block_ids").null_count == 4


def test_blocks_of_a_slice() -> None:
    held = columns(
        block_offsets=OFFSETS, block_values=BLOCKS, block_null=np.array([False, True, False, False])
    )
    whole = ArrayPart(held, 0, 4).arrow(["block_ids"]).column(0).to_pylist()
    assert whole == [[1, 2**64 - 1], None, [], [7, 8, 9]]
    assert ArrayPart(held, 2, 4).arrow(["block_ids"]).column(0).to_pylist() == whole[2:]
    assert held.present() == [name for name in schema.NAMES if name in {*held.values, "block_ids"}]


def test_source_ids_are_sliced() -> None:
    held = columns(source_id=pa.array(["a", None, "c", "d"]))
    assert ArrayPart(held, 1, 3).arrow(["source_id"]).column(0).to_pylist() == [None, "c"]
    assert "source_id" in held.present()


def test_columns_come_in_canonical_order() -> None:
    assert ArrayPart(columns(), 0, 4).arrow(["model", "arrival_us"]).column_names == ["arrival_us", "model"]


def test_parts_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PART_ROWS", 3)
    parts = columns().parts()
    assert [(part.low, part.high) for part in parts] == [(0, 3), (3, 4)]
    joined = [row for part in parts for row in part.arrow(schema.NAMES).to_pylist()]
    assert joined == ArrayPart(columns(), 0, 4).arrow(schema.NAMES).to_pylist()


def test_a_category_keeps_only_texts_that_occur() -> None:
    array = category_array(np.array([3, -1, 1, 3], np.int32), ["a", "b", "c", "d"])
    assert array.to_pylist() == ["d", None, "b", "d"]
    assert array.dictionary.to_pylist() == ["b", "d"]
