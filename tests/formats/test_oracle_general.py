"""oracleGeneral: records, compression, detection by plausibility, cut and broken records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from servescope.errors import BadRowError, FormatError
from servescope.exports import export
from servescope.formats.oracle_general import RECORD
from tests.formats.reading import column, counts, read, rejected

if TYPE_CHECKING:
    from pathlib import Path

TOP = 2**64 - 1
ROWS = [(10, TOP, 3, 3), (10, 5, 4, 4), (12, TOP, 6, -1), (15, 5, 6, -1), (15, 7, 1, -1)]


def records(rows: list[tuple[int, int, int, int]]) -> bytes:
    """The rows as records."""
    return np.array(rows, RECORD).tobytes()


def test_objects_are_sessions(tmp_path: Path) -> None:
    (tmp_path / "a.oracleGeneral").write_bytes(records(ROWS))
    trace = read(tmp_path / "a.oracleGeneral")
    assert trace.meta.format == "oracle_general"
    assert column(trace, "arrival_us") == [0, 0, 2_000_000, 5_000_000, 5_000_000]
    assert column(trace, "input_tokens") == [3, 4, 6, 6, 1]
    assert column(trace, "session_id") == [0, 1, 0, 1, 2]
    assert column(trace, "turn") == [1, 1, 2, 2, 1]
    assert column(trace, "parent_id") == [None, None, 0, 1, None]
    assert trace.meta.session_names == [str(TOP), "5", "7"]
    assert trace.meta.origin.first_ns == 10_000_000_000
    assert column(trace, "source_row") == [1, 2, 3, 4, 5]


def test_zstd_and_many_blocks_are_the_same_trace(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    table = np.zeros(400_000, RECORD)  # 9.6 MB: records straddle the blocks of 4 MB
    table["time"], table["object"] = np.arange(len(table)) // 50, random.integers(0, 900, len(table))
    table["size"], table["next"] = random.integers(1, 9_999, len(table)), -1
    (tmp_path / "a.bin").write_bytes(table.tobytes())
    with pa.CompressedOutputStream(str(tmp_path / "a.zst"), "zstd") as file:
        file.write(table.tobytes())
    for name in ("a.bin", "a.zst"):
        trace = read(tmp_path / name)
        assert trace.meta.format == "oracle_general"
        sizes = np.concatenate([batch["input_tokens"] for batch in trace.batches(["input_tokens"])])
        assert np.array_equal(sizes, table["size"])


def test_a_cut_record_is_a_fault_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(records(ROWS)[:-5])
    with pytest.raises(FormatError):
        read(tmp_path / "a.bin")
    with pytest.raises(BadRowError, match=r"a\.bin:5: row: the file ends after 19 of the record's 24 bytes"):
        read(tmp_path / "a.bin", format="oracle_general")
    trace = read(tmp_path / "a.bin", format="oracle_general", on_bad_row="skip")
    assert counts(trace) == (5, 4, 1)


def test_sizes_must_fit(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(records([*ROWS, (16, 1, 0, -1), (17, 1, 2**31, -1)]))
    trace = read(tmp_path / "a.bin", format="oracle_general", on_bad_row="skip")
    assert counts(trace) == (7, 5, 2)
    assert [(line, field, value) for line, field, value, _ in rejected(trace)] == [
        (6, "size", "0"),
        (7, "size", "2147483648"),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [(10, 1, 3, -1), (9, 1, 3, -1)],
        [(10, 1, 0, -1)],
        [(10, 1, 3, 2), (11, 2, 3, -1), (12, 3, 3, -1)],
        [(10, 1, 3, -1), (11, 2, 3, 1)],
    ],
    ids=["time goes back", "no size", "next is another object", "next is earlier"],
)
def test_implausible_records_are_not_recognised(
    tmp_path: Path, rows: list[tuple[int, int, int, int]]
) -> None:
    (tmp_path / "a.bin").write_bytes(records(rows))
    with pytest.raises(FormatError, match="no format recognises it"):
        read(tmp_path / "a.bin")


def test_there_and_back_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(records(ROWS))
    assert export(read(tmp_path / "a.bin"), tmp_path / "b.bin", to="oracle_general") == []
    assert (tmp_path / "b.bin").read_bytes() == records(ROWS)
