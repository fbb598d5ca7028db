"""Exports: what is refused, what is left out, and the same rows after a round trip."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope import exports
from servescope.errors import UsageError
from servescope.exports import EXPORTS, export
from servescope.formats.oracle_general import RECORD
from servescope.schema import NAMES
from tests.formats.reading import column, columns, read
from tests.shared import CASES, DATA, needs_cases, needs_data

if TYPE_CHECKING:
    from pathlib import Path


def lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def bailian_rows(count: int) -> list[dict[str, Any]]:
    """Made Bailian rows: trees, times to the millisecond, gaps in the ids."""
    random = np.random.default_rng(count)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        parent = rows[int(random.integers(max(i - 20, 0), i))] if i and random.random() < 0.5 else None
        tokens = int(random.integers(1, 300))
        row = {
            "chat_id": 7 * i + 3,
            "parent_chat_id": parent["chat_id"] if parent else -1,
            "timestamp": round(100 + i * 0.013 + float(random.random()) * 0.01, 3),
            "input_length": tokens,
            "output_length": int(random.integers(0, 90)),
            "type": ["text", "search", 'ü\\"'][i % 3],
            "turn": parent["turn"] + 1 if parent else 1,
            "hash_ids": random.integers(0, 2**64, -(-tokens // 16), dtype=np.uint64).tolist(),
        }
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", EXPORTS)
def test_the_table_and_the_files_agree(name: str) -> None:
    chosen = exports.load(name)
    assert chosen.name == name == EXPORTS[name].rsplit(".", 1)[1]
    assert chosen.title and chosen.holds <= set(NAMES)


def test_an_unknown_format_lists_the_known(tmp_path: Path) -> None:
    trace = read(jsonl(tmp_path / "a.jsonl", bailian_rows(3)))
    with pytest.raises(UsageError, match=r'unknown export format "azur". Did you mean azure\?'):
        export(trace, tmp_path / "b", to="azur")


@needs_data
@pytest.mark.parametrize("name", ["mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"])
def test_mooncake_there_and_back(tmp_path: Path, name: str) -> None:
    assert export(read(DATA / name), tmp_path / "a.parquet", to="canonical") == []
    assert export(read(tmp_path / "a.parquet"), tmp_path / "a.jsonl", to="mooncake") == []
    assert (tmp_path / "a.jsonl").read_bytes() == (DATA / name).read_bytes()


def test_bailian_there_and_back(tmp_path: Path) -> None:
    rows = bailian_rows(20_000)  # several pieces
    source = jsonl(tmp_path / "a.jsonl", rows)
    export(read(source), tmp_path / "a.parquet", to="canonical")
    assert export(read(tmp_path / "a.parquet"), tmp_path / "b.jsonl", to="bailian") == []
    assert lines(tmp_path / "b.jsonl") == rows


@needs_data
@pytest.mark.parametrize("name", ["azure2023_code.csv", "azure2023_conv.csv"])
def test_azure_there_and_back(tmp_path: Path, name: str) -> None:
    export(read(DATA / name), tmp_path / "a.parquet", to="canonical")
    notes = export(read(tmp_path / "a.parquet"), tmp_path / "b.csv", to="azure")
    assert any("good to 1 µs" in note for note in notes)
    # these two files count in steps of 10 µs, so nothing is lost
    assert (tmp_path / "b.csv").read_bytes().split() == (DATA / name).read_bytes().split()
    assert (tmp_path / "b.csv").read_bytes().endswith(b"\r\n")


@needs_cases
def test_azure_keeps_microseconds(tmp_path: Path) -> None:
    export(read(CASES / "06-azure-7digit.csv"), tmp_path / "b.csv", to="azure")
    assert [row["TIMESTAMP"][-10:] for row in table(tmp_path / "b.csv")] == [
        "00.0000001",
        "00.0000011",
        "00.1234571",
        "02.0000001",
    ]


@needs_cases
@pytest.mark.parametrize("to", ["mooncake", "csv", "canonical"])
def test_64_bit_ids_are_unchanged(tmp_path: Path, to: str) -> None:
    expected = [row["hash_ids"] for row in lines(CASES / "15-hash64.jsonl")]
    export(read(CASES / "15-hash64.jsonl"), tmp_path / "out", to=to)
    if to == "mooncake":
        found = [row["hash_ids"] for row in lines(tmp_path / "out")]
    elif to == "csv":
        found = [json.loads(row["block_ids"]) for row in table(tmp_path / "out")]
    else:
        found = pq.read_table(tmp_path / "out").column("block_ids").to_pylist()
    assert found == expected


@needs_cases
def test_delta_prompts_write_what_is_new(tmp_path: Path) -> None:
    trace = read(CASES / "26-cumulative-turns.jsonl")
    notes = export(trace, tmp_path / "a.csv", to="csv", delta_prompts=True)
    assert [row["input_tokens"] for row in table(tmp_path / "a.csv")] == ["40", "16", "16"]
    assert any("input_tokens holds what is new" in note and "--delta-prompts" in note for note in notes)
    again = read(
        tmp_path / "a.csv",
        format="table",
        time_unit="us",
        block_tokens=16,
        delta_prompts=True,
        map={"arrival": "arrival_us", "source_id": "request_id", "parent_id": "parent_id"}
        | {name: name for name in ("input_tokens", "output_tokens")},
    )
    assert column(again, "input_tokens") == [40, 64, 90]
    export(trace, tmp_path / "b.csv", to="csv")
    assert [row["input_tokens"] for row in table(tmp_path / "b.csv")] == ["40", "64", "90"]


@needs_cases
def test_new_tokens_are_null_where_history_was_shortened(tmp_path: Path) -> None:
    trace = read(CASES / "27-orphan-parent.jsonl", on_bad_row="skip")
    notes = export(trace, tmp_path / "a.csv", to="csv", delta_prompts=True)
    new = {row["source_id"]: row["input_tokens"] for row in table(tmp_path / "a.csv")}
    assert new == {"200": "48", "201": "64", "202": "23", "203": "", "204": "24"}
    assert "history was shortened (1): new tokens are null there" in notes


@needs_cases
def test_whole_prompts_cannot_be_deltas(tmp_path: Path) -> None:
    trace = read(CASES / "26-cumulative-turns.jsonl")
    with pytest.raises(UsageError, match="use --to csv"):
        export(trace, tmp_path / "a", to="bailian", delta_prompts=True)
    with pytest.raises(UsageError, match="needs stated parents"):
        export(read(CASES / "15-hash64.jsonl"), tmp_path / "a", to="csv", delta_prompts=True)


def test_every_loss_is_listed_and_refused(tmp_path: Path) -> None:
    trace = read(jsonl(tmp_path / "a.jsonl", bailian_rows(6)))
    with pytest.raises(UsageError) as caught:
        export(trace, tmp_path / "out.jsonl", to="mooncake")
    listed = [line[4:] for line in str(caught.value).splitlines() if line.startswith("  - ")]
    assert [line.split(" (")[0] for line in listed] == [
        "column source_id",
        "column request_type",
        "column session_id",
        "column parent_id",
        "column turn",
        "the block size of 16 tokens",
    ]
    assert not (tmp_path / "out.jsonl").exists()
    notes = export(trace, tmp_path / "out.jsonl", to="mooncake", lossy=True)
    assert notes == [f"lost: {line}" for line in listed]
    written = lines(tmp_path / "out.jsonl")
    assert [set(row) for row in written] == [{"timestamp", "input_length", "output_length", "hash_ids"}] * 6
    assert [row["input_length"] for row in written] == column(trace, "input_tokens")


def test_a_column_without_values_is_no_loss(tmp_path: Path) -> None:
    rows = [{**row, "parent_chat_id": -1, "turn": None, "type": None} for row in bailian_rows(4)]
    with pytest.raises(UsageError) as caught:
        export(read(jsonl(tmp_path / "a.jsonl", rows)), tmp_path / "out", to="mooncake")
    assert "column turn" not in str(caught.value) and "column source_id" in str(caught.value)


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 5, "input_length": 10, "output_length": 1},
        {"timestamp": 6.25, "input_length": 10, "output_length": None},
        {"timestamp": 7.5, "input_length": 12, "output_length": 3},
    ]
    trace = read(jsonl(tmp_path / "a.jsonl", rows))
    with pytest.raises(UsageError, match="2 arrival times that are no whole milliseconds") as caught:
        export(trace, tmp_path / "out", to="mooncake")
    assert "1 unknown or negative output (it is left empty)" in str(caught.value)
    export(trace, tmp_path / "out", to="mooncake", lossy=True)
    assert lines(tmp_path / "out") == [
        {"timestamp": 5, "input_length": 10, "output_length": 1},
        {"timestamp": 6, "input_length": 10},
        {"timestamp": 8, "input_length": 12, "output_length": 3},
    ]


def test_prompts_of_unknown_length_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    started = pa.array([0, 1_000_000, 2_000_000, 3_000_000], pa.timestamp("us"))
    rows = {"chute_id": ["m"] * 4, "started_at": started, "it": [5, None, 0, 7], "ot": [1, 2, 2, 3]}
    pq.write_table(pa.table(rows), path)
    with pytest.raises(UsageError, match=r"2 requests with unknown or no input tokens \(they are left out\)"):
        export(read(path), tmp_path / "out", to="mooncake")
    export(read(path), tmp_path / "out", to="mooncake", lossy=True)
    assert [row["timestamp"] for row in lines(tmp_path / "out")] == [0, 3000]
    pq.write_table(pa.table(rows).slice(1, 2), path)
    with pytest.raises(UsageError, match="mooncake can hold no request of this trace: 2 requests with"):
        export(read(path), tmp_path / "out", to="mooncake", lossy=True)


def test_csv_holds_every_column(tmp_path: Path) -> None:
    trace = read(jsonl(tmp_path / "a.jsonl", bailian_rows(50)))
    export(trace, tmp_path / "a.csv", to="csv")
    found = table(tmp_path / "a.csv")
    assert list(found[0]) == list(NAMES)
    for name, values in columns(trace, *NAMES).items():
        texts = [row[name] for row in found]
        if name == "block_ids":
            assert [json.loads(text) for text in texts] == values
        else:
            assert texts == ["" if value is None else str(value) for value in values], name


@needs_cases
def test_oracle_general(tmp_path: Path) -> None:
    trace = read(CASES / "26-cumulative-turns.jsonl")
    with pytest.raises(UsageError, match="1 arrival time that is no whole second"):
        export(trace, tmp_path / "a.bin", to="oracle_general")
    export(trace, tmp_path / "a.bin", to="oracle_general", lossy=True)
    records = np.frombuffer((tmp_path / "a.bin").read_bytes(), RECORD)
    assert records.tolist() == [(10, 0, 40, 2), (15, 0, 64, 3), (21, 0, 90, -1)]
    with pytest.raises(UsageError, match="needs sessions"):
        export(read(CASES / "15-hash64.jsonl"), tmp_path / "b.bin", to="oracle_general", lossy=True)


def test_next_accesses_name_the_same_object(tmp_path: Path) -> None:
    trace = read(jsonl(tmp_path / "a.jsonl", bailian_rows(400)))
    export(trace, tmp_path / "a.bin", to="oracle_general", lossy=True)
    records = np.frombuffer((tmp_path / "a.bin").read_bytes(), RECORD).tolist()
    objects = [record[1] for record in records]
    for i, (_, name, _, later) in enumerate(records):
        following = [j + 1 for j in range(i + 1, len(objects)) if objects[j] == name]
        assert later == (following[0] if following else -1)


def test_sessions_that_are_no_trees_are_a_loss_to_bailian(tmp_path: Path) -> None:
    records = np.array([(1, 9, 3, 2), (2, 9, 3, -1), (3, 8, 3, -1)], RECORD)
    (tmp_path / "a.bin").write_bytes(records.tobytes())
    with pytest.raises(UsageError, match="the source's names of the sessions") as caught:
        export(read(tmp_path / "a.bin"), tmp_path / "b", to="bailian")
    assert "that parents do not hold together" not in str(caught.value)
    path = tmp_path / "c.csv"
    path.write_text("t,i,s,p,k\n0,5,a,,1\n1,6,a,,2\n")
    fields = {"arrival": "t", "input_tokens": "i", "session_id": "s", "parent_id": "p", "source_id": "k"}
    with pytest.raises(UsageError, match="sessions that parents do not hold together"):
        export(read(path, map=fields, time_unit="s"), tmp_path / "b", to="bailian")


@pytest.mark.parametrize("to", [name for name in EXPORTS if name != "oracle_general"])
def test_a_failing_write_leaves_nothing(tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = read(jsonl(tmp_path / "a.jsonl", bailian_rows(5)))
    part = type(trace.parts[0])
    whole = part.arrow
    calls = []

    def stop(self: object, names: Any) -> Any:
        calls.append(names)
        if "input_tokens" in names and len(calls) > last:
            raise KeyboardInterrupt
        return whole(self, names)  # type: ignore[arg-type]

    monkeypatch.setattr(part, "arrow", stop)
    last = 10**9
    export(trace, tmp_path / "ok", to=to, lossy=True)
    needed, before = len(calls), (tmp_path / "ok").read_bytes()
    calls.clear()
    last = needed - 1
    with pytest.raises(KeyboardInterrupt):
        export(trace, tmp_path / "ok", to=to, lossy=True)
    assert (tmp_path / "ok").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "ok"]
