"""Tables with a column map: CSV, JSON lines and Parquet say the same, and nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope.errors import BadRowError, DataError, UsageError
from tests.formats.reading import column, columns, counts, read, rejected

if TYPE_CHECKING:
    from pathlib import Path

ROWS: list[dict[str, Any]] = [
    {
        "t": 1.5,
        "in": 100,
        "out": 7,
        "who": "ann",
        "end": 2.25,
        "first": 12.5,
        "ids": [1, 2**64 - 1],
        "k": "a",
    },
    {"t": 3, "in": 40, "out": None, "who": None, "end": None, "first": None, "ids": None, "k": "b"},
    {"t": 2.75, "in": 64, "out": 0, "who": "bob", "end": 2.75, "first": 0, "ids": [9], "k": "a"},
]
MAP = {"arrival": "t", "input_tokens": "in", "output_tokens": "out", "user": "who"}
MORE = {**MAP, "completed": "end", "ttft_ms": "first", "block_ids": "ids", "session": "k"}
NAMES = ["arrival_us", "input_tokens", "output_tokens", "user", "source_row"]


def as_text(value: object) -> str:
    if value is None:
        return ""
    return '"' + str(value) + '"' if isinstance(value, list) else str(value)


def written(folder: Path, kind: str, rows: list[dict[str, Any]] = ROWS) -> Path:
    """The rows as a file of that kind."""
    path = folder / f"x.{kind}"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(as_text, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    elif kind == "jsonl":
        path.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    else:
        schema = pa.schema(
            [
                ("t", pa.float64()),
                ("in", pa.int64()),
                ("out", pa.int32()),
                ("who", pa.dictionary(pa.int8(), pa.string())),
                ("end", pa.float64()),
                ("first", pa.float32()),
                ("ids", pa.list_(pa.uint64())),
                ("k", pa.large_string()),
            ]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_three_kinds_say_the_same(tmp_path: Path, kind: str) -> None:
    trace = read(written(tmp_path, kind), map=MORE, time_unit="s", block_tokens=64)
    first = {"csv": 2, "jsonl": 1, "parquet": 1}[kind]
    assert counts(trace) == (3, 3, 0)
    assert columns(
        trace, *NAMES, "completed_us", "ttft_s", "block_ids", "session_id", "turn", "parent_id"
    ) == {
        "arrival_us": [0, 1_250_000, 1_500_000],
        "input_tokens": [100, 64, 40],
        "output_tokens": [7, 0, None],
        "user": ["ann", "bob", None],
        "source_row": [first, first + 2, first + 1],
        "completed_us": [750_000, 1_250_000, None],
        "ttft_s": [0.0125, 0.0, None],
        "block_ids": [[1, 2**64 - 1], [9], None],
        "session_id": [0, 0, 1],
        "turn": [1, 2, 1],
        "parent_id": [None, 0, None],
    }
    assert (trace.meta.block_tokens, trace.meta.format) == (64, "table")
    assert trace.meta.session_names == ["a", "b"]
    assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("relative", 1_500_000_000)
    assert 'arrival is column "t", in s (declared), relative' in trace.meta.decisions


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_undeclared_units_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match=r'unit of column "t" is not declared; its first value is "1\.5"'):
        read(written(tmp_path, kind), map=MAP)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_unknown_columns_list_the_known(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match=r'--map model: no column "nope"\. It has: .*t.*'):
        read(written(tmp_path, kind), map={**MAP, "model": "nope"}, time_unit="s")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arival": "t"}, r'unknown field of --map "arival"\. Did you mean arrival\? Known: .*block_ids'),
        ({"input_tokens": "in"}, r"pass --map arrival=COLUMN"),
        ({**MAP, "block_ids": "ids"}, r"pass --block-tokens N"),
        ({**MAP, "parent_id": "k"}, r"pass --map source_id=COLUMN as well"),
        ({**MAP, "completed": "end", "duration_s": "first"}, r"completed and --map duration_s give the same"),
        ({**MAP, "session": "k", "session_id": "k"}, r"session_id and --map session_id give the same"),
    ],
)
def test_maps_that_cannot_be(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(written(tmp_path, "csv"), map=given, time_unit="s")


def test_without_a_map_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pass --map arrival=COLUMN"):
        read(written(tmp_path, "csv"), format="table", time_unit="s")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_calendar_texts_need_no_unit(tmp_path: Path, kind: str) -> None:
    times = ["2024-05-12T00:00:03Z", "2024-05-12 02:00:01.5+02:00"]
    path = tmp_path / f"x.{kind}"
    if kind == "csv":
        path.write_text("at\n" + "\n".join(times) + "\n")
    elif kind == "jsonl":
        path.write_text("\n".join(f'{{"at": "{text}"}}' for text in times))
    else:
        pq.write_table(pa.table({"at": times}), path)
    trace = read(path, map={"arrival": "at"})
    assert column(trace, "arrival_us") == [0, 1_500_000]
    assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("calendar", 1_715_472_001_500_000_000)
    with pytest.raises(UsageError, match=r"holds calendar times .* leave --time-unit out"):
        read(path, map={"arrival": "at"}, time_unit="s")


@pytest.mark.parametrize(("unit", "zone"), [("s", "UTC"), ("ms", None), ("us", "Asia/Tokyo"), ("ns", None)])
def test_parquet_timestamps(tmp_path: Path, unit: str, zone: str | None) -> None:
    values = pa.array([1_700_000_001, 1_700_000_000]).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"at": values.cast(pa.int64()).cast(pa.timestamp(unit, zone))}), path)
    trace = read(path, map={"arrival": "at"})
    assert column(trace, "arrival_us") == [0, 1_000_000]
    assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("calendar", 1_700_000_000 * 10**9)
    assert ("no time zone in file, read as UTC" in trace.meta.ledger.texts()) == (zone is None)


@pytest.mark.parametrize(
    ("first", "unit", "kind"),
    [
        ("99999999", "s", "relative"),
        ("100000000", "s", "calendar"),
        ("1e11", "ms", "calendar"),
        ("5", "ns", "relative"),
    ],
)
def test_since_1970_or_relative(tmp_path: Path, first: str, unit: str, kind: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"t\n{first}\n")
    trace = read(path, map={"arrival": "t"}, time_unit=unit)
    assert trace.meta.origin.kind == kind
    expected = "since 1970 UTC" if kind == "calendar" else "relative"
    assert any(expected in text for text in trace.meta.decisions)


def test_a_year_beyond_the_clock_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("t\n1731600000123456789\n")
    with pytest.raises(DataError, match=r"is in the year 54,8.*beyond what the trace's clock can hold"):
        read(path, map={"arrival": "t"}, time_unit="s")
    assert read(path, map={"arrival": "t"}, time_unit="ns").meta.origin.clock_us == 1_731_600_000_123_457


def test_sources_of_one_trace_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t\n5\n")
    (tmp_path / "b.csv").write_text("t\n1700000000\n")
    with pytest.raises(DataError, match=r'b\.csv: column "t" is in s .*differs from the sources before'):
        read(tmp_path / "a.csv", tmp_path / "b.csv", map={"arrival": "t"}, time_unit="s")


def test_epoch_floats_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"t": 1731600000.123}\n{"t": 1731600001.000001}\n')
    trace = read(path, map={"arrival": "t"}, time_unit="s")
    assert column(trace, "arrival_us") == [0, 877_001]
    assert trace.meta.origin.first_ns == 1_731_600_000_123_000_000


def test_json_types_are_strict(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"t": 1, "in": 5, "who": 12}\n{"t": 2, "in": "7"}\n{"t": 3, "in": 1.5}\n{"t": 4}\n{"in": 3}\n'
        '{"t": true, "in": 3}\n{"t": 7, "in": 3, "who": 1.5}\n[1]\n{"t": 9, "in": 3\n{"t": 10, "in": 64.0}\n'
    )
    fields = {"arrival": "t", "input_tokens": "in", "user": "who"}
    trace = read(path, map=fields, time_unit="s", on_bad_row="skip")
    assert columns(trace, "source_row", "input_tokens", "user") == {
        "source_row": [1, 10],
        "input_tokens": [5, 64],
        "user": ["12", None],
    }
    assert [(line, field, value) for line, field, value, _ in rejected(trace)] == [
        (2, "in", '"7"'),
        (3, "in", "1.5"),
        (4, "in", ""),
        (5, "t", ""),
        (6, "t", "true"),
        (7, "who", "1.5"),
        (8, "", ""),
        (9, "", ""),
    ]


def test_a_sparse_json_key_is_a_column_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    late = "".join(f'{{"t": {i}, "pad": "{"x" * 200}"}}\n' for i in range(1_000))
    path.write_text(late + '{"t": 2000, "model": "m"}\n')
    assert column(read(path, map={"arrival": "t", "model": "model"}, time_unit="s"), "model")[-2:] == [
        None,
        "m",
    ]
    with pytest.raises(UsageError, match=r'no column "modle"\. It has: pad, t\.'):
        read(path, map={"arrival": "t", "model": "modle"}, time_unit="s")


def test_durations_status_and_early_ends(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("t,d,s,e\n10,1.5,ok,9\n11,,failed,12\n12,0,,12\n13,-1,ok,14\n14,1,done,15\n")
    fields = {"arrival": "t", "duration_s": "d", "status": "s"}
    trace = read(path, map=fields, time_unit="s", on_bad_row="skip")
    assert columns(trace, "completed_us", "status") == {
        "completed_us": [1_500_000, None, 2_000_000],
        "status": ["ok", "failed", None],
    }
    assert rejected(trace) == [
        (5, "d", '"-1"', "a duration of at least 0 was expected"),
        (6, "s", '"done"', "one of ok, failed, unknown was expected"),
    ]
    early = read(path, map={"arrival": "t", "completed": "e"}, time_unit="s")
    assert early.meta.ledger.texts() == ["1 request ends before it arrives; kept as stated"]
    assert column(early, "completed_us")[0] == -1_000_000


def test_parents_by_id(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("t,id,up\n1,a,\n2,b,a\n3,c,gone\n4,a,\n5,d,b\n")
    fields = {"arrival": "t", "source_id": "id", "parent": "up"}
    with pytest.raises(BadRowError, match=r'x\.csv:5: field "id" is "a": already used at line 2'):
        read(path, map=fields, time_unit="s")
    trace = read(path, map=fields, time_unit="s", on_bad_row="skip")
    assert columns(trace, "source_id", "parent_id", "session_id") == {
        "source_id": ["a", "b", "c", "d"],
        "parent_id": [None, 0, None, 1],
        "session_id": [0, 0, 2, 0],
    }
    assert trace.meta.ledger.notes["orphan_parent"].lines == [4]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [('"[1, 2]"', [1, 2]), ("1 2", [1, 2]), ('" [18446744073709551615,0] "', [2**64 - 1, 0]), ("", None)],
)
def test_block_texts(tmp_path: Path, text: str, blocks: list[int] | None) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"t,n,b\n1,20,{text}\n2,16,7\n")
    fields = {"arrival": "t", "input_tokens": "n", "block_ids": "b"}
    trace = read(path, map=fields, time_unit="s", block_tokens=16)
    assert column(trace, "block_ids") == [blocks, [7]]


@pytest.mark.parametrize(
    "text", ["x", "1 2.5", '"[1, ""a""]"', '"[1"', "1_0 2", "-1 2", "1 18446744073709551616"]
)
def test_bad_block_texts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"t,n,b\n1,20,{text}\n")
    with pytest.raises(BadRowError, match=r'x\.csv:2: field "b" is '):
        read(
            path, map={"arrival": "t", "input_tokens": "n", "block_ids": "b"}, time_unit="s", block_tokens=16
        )


def test_block_counts_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("t,n,b\n1,40,1 2\n")
    fields = {"arrival": "t", "input_tokens": "n", "block_ids": "b"}
    with pytest.raises(BadRowError, match="2 ids, 3 needed for 40 tokens at block size 16"):
        read(path, map=fields, time_unit="s", block_tokens=16)


def test_one_column_may_serve_two_fields(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl", "parquet"):
        trace = read(written(tmp_path, kind), map={**MAP, "session": "who"}, time_unit="s")
        assert columns(trace, "user", "session_id") == {
            "user": ["ann", "bob", None],
            "session_id": [0, 1, None],
        }


def test_what_is_no_table(tmp_path: Path) -> None:
    array = tmp_path / "x.json"
    array.write_text('[{"t": 1}]')
    with pytest.raises(UsageError, match="one JSON array"):
        read(array, map={"arrival": "t"}, time_unit="s")
    with pytest.raises(UsageError, match="a folder"):
        read(tmp_path, map={"arrival": "t"}, time_unit="s")
    whole = written(tmp_path, "parquet").read_bytes()
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"broken\.parquet: broken Parquet file"):
        read(broken, map={"arrival": "t"}, time_unit="s")
