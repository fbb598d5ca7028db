"""Chutes: values as they stand, user keys, side tables, order, windows, sorting, bad rows."""

from __future__ import annotations

import csv
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.make_trace import Shape, make

from servescope import schema
from servescope.errors import BadRowError, DataError, UsageError
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.formats.read_sorted import read_sorted
from servescope.formats.time_order import DisorderError
from servescope.trace import to_batch

if TYPE_CHECKING:
    from servescope.trace import Trace

US = pa.timestamp("us")


def rows_of(times: list[int | None], **columns: object) -> pa.Table:
    """A small Chutes table: times in µs, other columns plain unless given."""
    count = len(times)
    table: dict[str, object] = {
        "invocation_id": pa.array(range(100, 100 + count)),
        "function_name": pa.array(["chat"] * count),
        "chute_id": pa.array(["m1"] * count),
        "user_id": pa.array(["u1"] * count),
        "rehash_round": pa.array([0] * count),
        "instance_id": pa.array(["i1"] * count),
        "started_at": pa.array(times, US),
        "completed_at": pa.array([None if t is None else t + 1_000 for t in times], US),
        "it": pa.array(range(count)),
        "ot": pa.array([1] * count),
        "ct": pa.array([None] * count, pa.int64()),
        "ttft": pa.array([0.5] * count),
    }
    return pa.table(table | columns)


def write(path: Path, table: pa.Table, group_rows: int = 4) -> str:
    """Write with small row groups; returns the path as text."""
    pq.write_table(table, path, row_group_size=group_rows)
    return str(path)


def column(trace: Trace, name: str) -> list[object]:
    """A canonical column as Python values."""
    return [value for table in trace.arrow([name]) for value in table.column(0).to_pylist()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made trace of several row groups and two rotation rounds, with side tables."""
    path = tmp_path_factory.mktemp("chutes") / "trace.parquet"
    make(path, Shape(150_000, models=30, users=300, days=200, seed=4))
    return path


def test_every_column_is_what_the_source_says(made: Path) -> None:
    trace = read_trace([str(made)], ReadOptions(cohorts=str(made.with_suffix(".cohorts.csv"))))
    source = pq.read_table(made)
    table = pa.concat_tables(list(trace.arrow()), promote_options="none")
    assert table.num_rows == source.num_rows == trace.rows == trace.meta.ledger.kept
    started = source.column("started_at").cast(pa.int64()).to_numpy()
    assert started[0] == 0
    assert np.array_equal(table.column("arrival_us").to_numpy(), started)
    assert (
        table.column("completed_us").to_pylist() == source.column("completed_at").cast(pa.int64()).to_pylist()
    )
    for canonical, name in {
        "input_tokens": "it",
        "output_tokens": "ot",
        "cached_tokens": "ct",
        "ttft_s": "ttft",
        "endpoint": "function_name",
        "model": "chute_id",
        "cache_scope": "chute_id",
        "instance": "instance_id",
    }.items():
        assert table.column(canonical).to_pylist() == source.column(name).to_pylist(), canonical
    ids, rounds = source.column("user_id").to_pylist(), source.column("rehash_round").to_pylist()
    keys = [None if u is None else f"{u}@{r}" for u, r in zip(ids, rounds, strict=True)]
    assert table.column("user").to_pylist() == keys
    assert set(rounds) == {0, 1, 2}
    with made.with_suffix(".cohorts.csv").open() as file:
        cohorts = {
            f"{r['user_id']}@{r['rehash_round']}": int(r["release_cohort"]) for r in csv.DictReader(file)
        }
    assert table.column("cohort").to_pylist() == [None if k is None else cohorts[k] for k in keys]
    assert table.column("source_id").to_pylist() == [str(i) for i in range(table.num_rows)]
    assert table.column("source_row").to_pylist() == list(range(1, table.num_rows + 1))
    assert table.column("request_id").to_pylist() == list(range(table.num_rows))
    assert table.column("status").null_count == table.num_rows


def test_batches_carry_global_codes(made: Path) -> None:
    trace = read_trace([str(made)])
    names = trace.names("user")
    texts = [names[c] if c >= 0 else None for b in trace.batches(["user"]) for c in b["user"].tolist()]
    assert len(trace.parts) > 1
    assert texts == column(trace, "user")


def test_the_trace_is_streamed_in_place_and_says_so(made: Path) -> None:
    trace = read_trace([str(made)])
    assert trace.meta.format == "chutes"
    assert [fact.covers for fact in trace.meta.sources] == ["footer"]
    assert trace.meta.origin.kind == "nominal" and trace.meta.origin.first_ns == 0
    assert "cohort" not in trace.meta.columns
    started = pq.read_table(made, columns=["started_at"]).column(0).cast(pa.int64()).to_numpy()
    counts = np.unique_counts(started).counts
    shared = counts[counts > 1]
    note = trace.meta.ledger.notes["shared_timestamps"]
    assert note.count == len(shared) and f"{int(shared.sum()):,} requests" in note.many


def test_a_slice_keeps_the_nominal_clock(tmp_path: Path) -> None:
    trace = read_trace([write(tmp_path / "a.parquet", rows_of([5_000_000, 5_000_000, 7_000_001]))])
    assert column(trace, "arrival_us") == [0, 0, 2_000_001]
    assert trace.meta.origin.first_ns == 5_000_000_000


def test_values_are_kept_as_they_stand(tmp_path: Path) -> None:
    table = rows_of(
        [1, 2, 3],
        it=pa.array([0, -5, None], pa.int64()),
        user_id=pa.array([None, "u", "u"]),
        rehash_round=pa.array([1, None, 2]),
        completed_at=pa.array([0, None, 9], US),
        ttft=pa.array([-1.0, None, 0.0], pa.float32()),
    )
    trace = read_trace([write(tmp_path / "a.parquet", table)])
    assert column(trace, "input_tokens") == [0, -5, None]
    assert column(trace, "user") == [None, "u@", "u@2"]
    assert column(trace, "completed_us") == [-1, None, 8]
    assert column(trace, "ttft_s") == [-1.0, None, 0.0]


def test_nanoseconds_are_rounded_half_up(tmp_path: Path) -> None:
    table = rows_of([0, 1], started_at=pa.array([100, 1_600], pa.timestamp("ns")))
    table = table.set_column(7, "completed_at", pa.array([599, 601], pa.timestamp("ns")))
    trace = read_trace([write(tmp_path / "a.parquet", table)])
    assert column(trace, "arrival_us") == [0, 2]
    assert column(trace, "completed_us") == [0, 1]


def test_a_null_start_stops_or_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3, 4, 5, None, 7]))
    with pytest.raises(BadRowError) as caught:
        read_trace([path])
    assert (caught.value.fault.line, caught.value.fault.field, caught.value.fault.rule) == (
        6,
        "started_at",
        "no_start",
    )
    trace = read_trace([path], ReadOptions(on_bad_row="skip"))
    assert column(trace, "source_row") == [1, 2, 3, 4, 5, 7]
    assert column(trace, "input_tokens") == [0, 1, 2, 3, 4, 6]
    assert trace.meta.ledger.dropped == {"no_start": 1} and trace.meta.ledger.balanced()
    assert [fault.line for fault in trace.rejects.faults] == [6]


@pytest.mark.parametrize("bad", [2**31, -(2**31), 2**40])
def test_tokens_beyond_32_bits_are_a_fault(tmp_path: Path, bad: int) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2], ot=pa.array([3, bad])))
    with pytest.raises(BadRowError, match=f'a.parquet:2: field "ot" is {bad}'):
        read_trace([path])
    trace = read_trace([path], ReadOptions(on_bad_row="skip"))
    assert column(trace, "output_tokens") == [3]


def test_tokens_as_doubles(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3], it=pa.array([3.0, float("nan"), None])))
    assert column(read_trace([path]), "input_tokens") == [3, None, None]
    path = write(tmp_path / "b.parquet", rows_of([1, 2], it=pa.array([3.0, 1.5])))
    with pytest.raises(BadRowError, match=r"b.parquet:2: field \"it\" is 1.5"):
        read_trace([path])


def test_an_unreadable_type_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2], it=pa.array(["3", "4"])))
    with pytest.raises(DataError, match='field "it" is of type string, a whole number was expected'):
        read_trace([path])


def test_numbers_as_times_need_a_unit(tmp_path: Path) -> None:
    table = rows_of([1, 2], started_at=pa.array([10, 12]), completed_at=pa.array([11, None], pa.int64()))
    path = write(tmp_path / "a.parquet", table)
    with pytest.raises(UsageError, match="--time-unit"):
        read_trace([path])
    assert column(read_trace([path], ReadOptions(time_unit="s")), "arrival_us") == [0, 2_000_000]


def test_disorder_is_refused_without_a_window(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3, 4, 9, 8_000_000, 7_000_000]))
    with pytest.raises(
        DisorderError, match=r"about row 7: .*lies 1 s before.*window is 0 s.*convert"
    ) as caught:
        read_trace([path])
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("seed", range(12))
def test_disorder_within_the_window_is_sorted(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    window = int(random.integers(1, 30))
    true = np.sort(random.integers(0, 400, 120))
    order = np.argsort(true + random.integers(0, window + 1, 120), kind="stable")
    times = (true[order] * 1_000_000).tolist()
    path = write(tmp_path / "a.parquet", rows_of(times), group_rows=int(random.integers(3, 20)))
    trace = read_trace([path], ReadOptions(reorder_window_s=window))
    expected = sorted(range(len(times)), key=lambda i: (times[i], i))
    assert column(trace, "source_row") == [i + 1 for i in expected]
    assert column(trace, "input_tokens") == expected
    assert column(trace, "arrival_us") == [times[i] - min(times) for i in expected]
    early = sum(b < a for a, b in itertools.pairwise(times))
    assert trace.meta.ledger.repaired == ({"sorted": early} if early else {})
    shared = [c for c in np.unique_counts(times).counts.tolist() if c > 1]
    assert trace.meta.ledger.notes["shared_timestamps"].count == len(shared)
    assert [batch.start for batch in trace.batches(["arrival_us"])] == list(trace.starts[:-1])


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    first = write(tmp_path / "b.parquet", rows_of([1, 2, 3, 4, 5]))
    second = write(tmp_path / "a.parquet", rows_of([5, 6]))
    trace = read_trace([first, second])
    assert column(trace, "arrival_us") == [0, 1, 2, 3, 4, 4, 5]
    assert column(trace, "source_row") == [1, 2, 3, 4, 5, 1, 2]
    with pytest.raises(DisorderError):
        read_trace([second, first])


def test_convert_sorts_what_cannot_be_streamed(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a.parquet", rows_of([50, 20, None, 20, 10], invocation_id=pa.array([9, 8, 7, 6, 5]))
    )
    second = write(tmp_path / "b.parquet", rows_of([30, 20], invocation_id=pa.array([1, 2])))
    with pytest.raises(BadRowError, match=r"a.parquet:3: field \"started_at\""), read_sorted([first, second]):
        pass
    skip = ReadOptions(on_bad_row="skip")
    with read_sorted([first, second], skip, folder=tmp_path) as trace:
        assert column(trace, "arrival_us") == [0, 10, 10, 10, 20, 40]
        assert column(trace, "source_id") == ["5", "2", "6", "8", "1", "9"]
        assert column(trace, "source_row") == [5, 2, 4, 2, 1, 1]
        assert trace.meta.ledger.repaired == {"sorted": 3}
        assert [(fault.file, fault.line) for fault in trace.rejects.faults] == [(first, 3)]
        assert [(fact.name, fact.covers) for fact in trace.meta.sources] == [
            (first, "file"),
            (second, "file"),
        ]
        assert "source_row" in trace.meta.columns and trace.meta.ledger.balanced()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_a_file_in_order_is_not_copied_by_convert(made: Path) -> None:
    with read_sorted([str(made)]) as trace:
        assert [fact.covers for fact in trace.meta.sources] == ["file"]
        assert trace.meta.ledger.repaired == {}


def test_model_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3, 4], chute_id=pa.array(["a", "b", "c", "d"])))
    names = tmp_path / "names.csv"
    names.write_text("chute_id,name\na,org/one\nb,org/two\nd,org/two\n")
    trace = read_trace([path], ReadOptions(model_names=str(names)))
    assert column(trace, "model") == ["org/one", "org/two [b]", "c", "org/two [d]"]
    assert any("1 model names stand for several" in sentence for sentence in trace.meta.decisions)
    names.write_text("x,y\n1,2\n")
    with pytest.raises(UsageError, match="no column chute_id or id; it has x, y"):
        read_trace([path], ReadOptions(model_names=str(names)))


def test_broken_side_tables(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1]))
    table = tmp_path / "cohorts.csv"
    table.write_text("user_id,rehash_round,release_cohort\nu1,0,two\n")
    with pytest.raises(DataError, match="row 1: release_cohort 'two'"):
        read_trace([path], ReadOptions(cohorts=str(table)))
    with pytest.raises(UsageError, match="no such file"):
        read_trace([path], ReadOptions(cohorts=str(tmp_path / "none.csv")))
    faulty = write(tmp_path / "b.parquet", rows_of([1, 2], ot=pa.array([3, 2**40])))
    with pytest.raises(BadRowError, match=r'b\.parquet:2: field "ot"'):  # the trace comes first
        read_trace([faulty], ReadOptions(cohorts=str(table)))


def test_cut_and_empty_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3]))
    data = Path(path).read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"cut\.parquet: broken Parquet file"):
        read_trace([str(cut)], ReadOptions(format="chutes"))
    with pytest.raises(DataError, match=r"no rows\. Is the file empty"):
        read_trace([write(tmp_path / "empty.parquet", rows_of([]))])


VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "nulls": {
        "it": pa.array([5, None, -3, 7, None, 1], pa.int64()),
        "completed_at": pa.array([9, None, None, 12, 13, 14], US),
        "ttft": pa.array([None, 0.5, 1.5, None, 2.5, 3.0]),
        "user_id": pa.array(["a", None, "b", "a", "c", None]),
    },
    "all null": {
        "it": pa.nulls(6),
        "ttft": pa.nulls(6),
        "completed_at": pa.nulls(6),
        "ot": pa.array([None] * 6, pa.int64()),
    },
    "other types": {
        "it": pa.array([3.0, float("nan"), None, 4.0, 5.0, 6.0]),
        "ot": pa.array([1, 2, None, 4, 5, 6], pa.int16()),
        "ttft": pa.array([1, None, 3, 4, 5, 6], pa.float32()),
        "started_at": pa.array([100, 1_600, 2_499, 2_500, 3_000, 9_000], pa.timestamp("ns")),
        "completed_at": pa.array([599, None, 2_500, 2_500, 9_000, 9_499], pa.timestamp("ns")),
        "rehash_round": pa.array([3] * 6, pa.int8()),
        "user_id": pa.array([11, 12, None, 11, 13, 14]),
    },
    "milliseconds, disorder": {
        "started_at": pa.array([2, 1, 3, 6, 5, 4], pa.timestamp("ms")),
        "completed_at": pa.array([4, None, 5, 9, 8, 7], pa.timestamp("ms")),
    },
    "dropped rows": {"it": pa.array([1, 2**40, None, 4, 5, 6]), "ct": pa.array([None, None, 1, 2, 3, None])},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_batches_are_those_of_the_arrow_tables(tmp_path: Path, variant: str) -> None:
    path = write(tmp_path / "a.parquet", rows_of([1, 2, 3, 4, 5, 6], **VARIANTS[variant]), group_rows=3)
    options = ReadOptions(reorder_window_s=1, on_bad_row="skip")
    names = [name for name in schema.NAMES if name != "source_id"]
    trace = read_trace([path], options)
    categories = {name: trace.category(name) for name in schema.CATEGORIES}
    for index, part in enumerate(trace.parts):
        batch = trace.batch(index, names)
        expected = to_batch(part.arrow(names), trace.starts[index], categories)
        assert batch.columns.keys() == expected.columns.keys() and batch.rows == part.rows
        for name, values in expected.columns.items():
            assert batch[name].dtype == values.dtype and batch[name].flags.writeable, name
            np.testing.assert_array_equal(batch[name], values, name)


def test_threads_may_read_parts_side_by_side(made: Path) -> None:
    trace = read_trace([str(made)])
    for name in ("user", "model"):
        trace.codes(name)
    names = ["arrival_us", "user", "model", "input_tokens"]

    def total(index: int) -> list[int]:
        batch = next(trace.batches(names, first=index, last=index + 1))
        return [int(batch[name].astype(np.int64).sum()) for name in names]

    alone = [total(index) for index in range(len(trace.parts))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(total, [*range(len(trace.parts))] * 8)) == alone * 8


def test_a_lying_footer_is_noticed(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", rows_of([1, 2], ot=pa.array([3, 4]))))
    big, small = (2**40).to_bytes(8, "little"), (4).to_bytes(8, "little")
    pq.write_table(
        pq.read_table(path), path, compression="none", use_dictionary=False, write_page_checksum=False
    )
    data = path.read_bytes()
    place = data.index((3).to_bytes(8, "little") + small) + 8
    path.write_bytes(data[:place] + big + data[place + 8 :])
    trace = read_trace([str(path)])
    assert column(trace, "input_tokens") == [0, 1]
    with pytest.raises(DataError, match=r"a\.parquet: broken Parquet file \(Integer value 1099511627776"):
        column(trace, "output_tokens")
