"""The trace: codes, batches, starts, and the same arrays for any parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from servescope import schema
from servescope.category import Category
from servescope.ledger import Ledger
from servescope.trace import Origin, Trace, TraceMeta, to_batch

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TablePart:
    """Rows of an Arrow table that holds some canonical columns."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.num_rows

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        return self.table.select([name for name in schema.NAMES if name in set(columns)])


def trace_of(*tables: pa.Table) -> Trace:
    """A trace of the tables."""
    meta = TraceMeta("made", [], [], Origin(), tables[0].column_names, Ledger())
    return Trace(meta, tuple(TablePart(table) for table in tables))


def models(*texts: str | None, order: Sequence[str] | None = None) -> pa.Table:
    """A table with the column `model`; its dictionary in the given order, unused texts included."""
    dictionary = list(order) if order else list(dict.fromkeys(text for text in texts if text is not None))
    indices = pa.array([None if text is None else dictionary.index(text) for text in texts], pa.int32())
    coded = pa.DictionaryArray.from_arrays(indices, pa.array(dictionary, pa.string()))
    return pa.table({"model": coded})


def test_codes_are_the_same_for_any_dictionary() -> None:
    trace = trace_of(models("b", None, "a"), models("c", "a", "b", order=["unused", "a", "b", "c"]))
    assert trace.codes("model") == {"b": 0, "a": 1, "c": 2}
    assert trace.names("model") == ["b", "a", "c"]
    got = [batch["model"].tolist() for batch in trace.batches(["model"])]
    assert got == [[0, schema.NULL_CODE, 1], [2, 1, 0]]


def test_a_column_that_the_source_lacks_has_no_codes() -> None:
    trace = trace_of(models("a"))
    assert trace.codes("user") == {} and not trace.has("user") and trace.has("model")


def test_starts_and_ranges() -> None:
    trace = trace_of(models("a", "b"), models("c"), models("d", "e", "f"))
    assert trace.starts == (0, 2, 3, 6) and trace.rows == 6
    assert [batch.start for batch in trace.batches(["model"], first=1)] == [2, 3]
    assert [batch.rows for batch in trace.batches(["model"], first=0, last=2)] == [2, 1]


def test_an_empty_trace() -> None:
    trace = Trace(TraceMeta("made", [], [], Origin(), ["model"], Ledger()), ())
    assert trace.rows == 0 and list(trace.batches(["model"])) == [] and trace.codes("model") == {}


blocks = st.lists(st.one_of(st.none(), st.lists(st.integers(0, 2**64 - 1), max_size=4)), max_size=12)


@given(blocks, st.integers(0, 12))
def test_blocks_of_a_batch(rows: list[list[int] | None], cut: int) -> None:
    whole = pa.chunked_array([pa.array(rows[:cut], schema.BLOCKS), pa.array(rows[cut:], schema.BLOCKS)])
    batch = to_batch(pa.table({"block_ids": whole}), 3, {})
    assert batch.start == 3 and batch.rows == len(rows)
    offsets = batch.block_offsets
    found = [
        None if batch.block_null[i] else batch.block_values[offsets[i] : offsets[i + 1]].tolist()
        for i in range(len(rows))
    ]
    assert found == rows
    assert len(offsets) == len(rows) + 1 and offsets[-1] == len(batch.block_values)


def test_values_hidden_under_a_null_are_not_blocks() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()),
        pa.array([1, 2, 3], pa.uint64()),
        type=schema.BLOCKS,
        mask=pa.array([True, False]),
    )
    batch = to_batch(pa.table({"block_ids": lists}), 0, {})
    assert batch.block_values.tolist() == [3] and batch.block_offsets.tolist() == [0, 0, 1]


def test_nulls_become_sentinels_of_the_right_type() -> None:
    table = pa.table(
        {
            "input_tokens": pa.array([1, None], pa.int32()),
            "cohort": pa.array([None, 2], pa.int16()),
            "ttft_s": pa.array([None, 0.5]),
            "completed_us": pa.array([None, 2**62], pa.int64()),
            "source_id": pa.array(["x", None]),
        }
    )
    batch = to_batch(table, 0, {})
    assert batch["input_tokens"].tolist() == [1, schema.NULL_INT32]
    assert batch["cohort"].tolist() == [schema.NULL_INT32, 2] and batch["cohort"].dtype == np.int32
    assert np.isnan(batch["ttft_s"][0]) and batch["ttft_s"][1] == 0.5
    assert batch["completed_us"].tolist() == [schema.NULL_INT64, 2**62]
    assert "source_id" not in batch.columns


def test_the_clock_of_an_origin() -> None:
    assert Origin("calendar", 1_500).clock_us == 2
    assert Origin("nominal", 1_499).clock_us == 1
    assert Origin("relative", 10**12).clock_us == 0 and Origin("none").clock_us == 0


def test_other_metadata_leaves_the_rows() -> None:
    trace = trace_of(models("a", "b"))
    changed = trace.with_meta(format="other")
    assert (changed.meta.format, trace.meta.format) == ("other", "made")
    assert changed.parts is trace.parts


def test_arrays_of_a_batch_may_be_handed_to_kernels_without_a_copy() -> None:
    table = pa.table({"arrival_us": pa.array([1, 2]), "ttft_s": pa.array([0.5, None])})
    batch = to_batch(table.append_column("model", models("a", None).column(0)), 0, {"model": Category()})
    for name, values in batch.columns.items():
        assert values.flags.writeable, name
    assert batch["model"].tolist() == [-1, -1]  # not surveyed


def test_texts_are_found_by_name() -> None:
    category = trace_of(models("b", "a")).category("model")
    assert category.find(["a", "x", "b"]).tolist() == [1, -1, 0]
