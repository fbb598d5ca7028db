"""The input cases that are JSON lines: Mooncake and Bailian."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from servescope.errors import BadRowError, DataError
from tests.formats.reading import column, columns, counts, read, rejected
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_cases


class TestMalformedLine:
    path = CASES / "01-malformed-line.jsonl"

    def test_strict_names_file_line_and_place(self) -> None:
        with pytest.raises(BadRowError) as caught:
            read(self.path)
        found = caught.value.fault
        assert (found.file, found.line) == (str(self.path), 3)
        line = self.path.read_bytes().split(b"\n")[2]
        assert found.reason == f"invalid JSON at column {len(line) + 1} (the line ends too early)"
        assert str(caught.value).startswith(f"{self.path}:3: row: invalid JSON at column")
        assert "530" not in str(caught.value)

    def test_skip_keeps_the_others(self) -> None:
        trace = read(self.path, on_bad_row="skip")
        assert counts(trace) == (5, 3, 2)
        assert rejected(trace)[1] == (4, "", "", "row is an array, an object was expected")
        assert rejected(trace)[0][0] == 3
        assert trace.meta.ledger.dropped == {"invalid_json": 1, "not_an_object": 1}
        assert columns(trace, "arrival_us", "input_tokens", "output_tokens", "source_row") == {
            "arrival_us": [0, 1_500_000, 4_500_000],
            "input_tokens": [700, 1200, 100],
            "output_tokens": [12, 40, 3],
            "source_row": [1, 2, 5],
        }
        assert trace.meta.block_tokens == 512


def test_blank_lines_and_crlf() -> None:
    trace = read(CASES / "02-blank-crlf.jsonl")
    assert counts(trace) == (2, 2, 0)
    assert columns(trace, "source_row", "arrival_us", "input_tokens", "output_tokens", "block_ids") == {
        "source_row": [1, 4],
        "arrival_us": [0, 27_000],
        "input_tokens": [90, 600],
        "output_tokens": [4, 8],
        "block_ids": [[11], [12, 13]],
    }
    assert trace.meta.ledger.texts() == ["2 blank lines"]


def test_milliseconds_are_fixed_by_mooncake() -> None:
    trace = read(CASES / "09-units-ms.jsonl")
    assert column(trace, "arrival_us") == [0, 3_000_000, 6_000_000]
    assert trace.meta.decisions[0] == (
        "recognised by its content: JSON lines with timestamp, input_length, output_length and no chat_id"
    )
    assert "timestamp is in ms (fixed by the format)" in trace.meta.decisions


def test_seconds_are_fixed_by_bailian_and_rebased() -> None:
    trace = read(CASES / "09-units-s.jsonl")
    assert column(trace, "arrival_us") == [0, 750_000, 3_250_000]
    assert (trace.meta.origin.kind, trace.meta.origin.first_ns) == ("relative", 40_250_000_000)
    assert trace.meta.origin.clock_us == 0
    assert trace.meta.block_tokens == 16
    assert "timestamp is in s (fixed by the format)" in trace.meta.decisions


def test_out_of_order_and_ties() -> None:
    trace = read(CASES / "10-out-of-order-ties.jsonl")
    assert columns(trace, "input_tokens", "arrival_us", "source_row", "request_id", "block_ids") == {
        "input_tokens": [102, 104, 105, 101, 103],
        "arrival_us": [0, 0, 1_500_000, 3_000_000, 3_000_000],
        "source_row": [2, 4, 5, 1, 3],
        "request_id": [0, 1, 2, 3, 4],
        "block_ids": [[2], [4], [5], [1], [3]],
    }
    assert trace.meta.ledger.texts() == [
        "2 rows were earlier than the row before them; sorted",
        "2 timestamps are shared by 4 requests",
    ]
    assert trace.meta.ledger.repaired == {"sorted": 2}
    assert counts(trace) == (5, 5, 0)


@pytest.mark.parametrize("name", ["13-two-members.jsonl.gz", "13-two-frames.jsonl.zst"])
def test_every_compressed_member_is_read(name: str) -> None:
    trace = read(CASES / name)
    assert counts(trace) == (4, 4, 0)
    assert columns(trace, "input_tokens", "arrival_us", "source_row") == {
        "input_tokens": [50, 60, 70, 80],
        "arrival_us": [0, 100_000, 200_000, 300_000],
        "source_row": [1, 2, 3, 4],
    }


def test_a_cut_compressed_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(gzip.decompress((CASES / "13-two-members.jsonl.gz").read_bytes()) * 500)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[:-40])
    with pytest.raises(DataError, match=r"cut\.jsonl\.gz: the gzip data is broken"):
        read(cut, format="mooncake")


class TestHash64:
    path = CASES / "15-hash64.jsonl"

    def test_all_64_bits_survive(self) -> None:
        trace = read(self.path)
        assert column(trace, "block_ids") == [
            [1, 9007199254740993],
            [4294967297, 9007203549708289],
            [1, 9007199254740992],
            [18446744073709551615, 9223372036854775808],
            [18446744073709551615, 9223372036854775808],
        ]
        assert len({block for row in column(trace, "block_ids") for block in row}) == 7

    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            ("18446744073709551616", "does not fit in 64 bits unsigned"),
            ("-1", "does not fit in 64 bits unsigned"),
            ("1.5", "a whole number was expected"),
        ],
    )
    def test_other_ids_are_refused(self, tmp_path: Path, block: str, reason: str) -> None:
        added = tmp_path / "added.jsonl"
        row = f'{{"timestamp": 9000, "input_length": 100, "output_length": 5, "hash_ids": [{block}]}}\n'
        added.write_text(self.path.read_text() + row)
        with pytest.raises(BadRowError) as caught:
            read(added)
        found = caught.value.fault
        assert (found.line, found.field, found.value, found.reason) == (6, "hash_ids", block, reason)
        trace = read(added, on_bad_row="skip")
        assert counts(trace) == (6, 5, 1)
        assert column(trace, "block_ids") == column(read(self.path), "block_ids")


class TestHashCount:
    path = CASES / "16-hash-count.jsonl"

    def test_strict(self) -> None:
        with pytest.raises(BadRowError) as caught:
            read(self.path)
        found = caught.value.fault
        assert (found.line, found.field) == (3, "hash_ids")
        assert found.reason == "2 ids, 1 needed for 20 tokens at block size 512"

    def test_skip(self) -> None:
        trace = read(self.path, on_bad_row="skip")
        assert counts(trace) == (6, 3, 3)
        assert column(trace, "source_row") == [1, 2, 5]
        assert [(line, field, reason.split(" for ")[0]) for line, field, _, reason in rejected(trace)] == [
            (3, "hash_ids", "2 ids, 1 needed"),
            (4, "hash_ids", "2 ids, 3 needed"),
            (6, "hash_ids", "0 ids, 1 needed"),
        ]
        assert trace.meta.ledger.dropped == {"block_count": 3}

    def test_absent_ids_are_not_an_empty_list(self, tmp_path: Path) -> None:
        without = tmp_path / "without.jsonl"
        without.write_text(
            '{"timestamp": 0, "input_length": 300, "output_length": 6}\n'
            '{"timestamp": 1, "input_length": 300, "output_length": 6, "hash_ids": [4]}\n'
        )
        assert column(read(without), "block_ids") == [None, [4]]


class TestOrphanParent:
    path = CASES / "27-orphan-parent.jsonl"

    def test_strict_refuses_the_repeated_id(self) -> None:
        with pytest.raises(BadRowError) as caught:
            read(self.path)
        found = caught.value.fault
        assert (found.line, found.field, found.value) == (6, "chat_id", "200")
        assert found.reason == "already used at line 1"

    def test_skip_builds_trees(self) -> None:
        trace = read(self.path, on_bad_row="skip")
        assert counts(trace) == (6, 5, 1)
        got = columns(trace, "source_id", "session_id", "parent_id", "turn", "source_row", "input_tokens")
        assert got == {
            "source_id": ["200", "201", "203", "204", "202"],
            "session_id": [0, 1, 0, 0, 1],
            "parent_id": [None, None, 0, 0, 1],
            "turn": [1, 3, 2, 2, 4],
            "source_row": [1, 2, 4, 5, 3],
            "input_tokens": [48, 64, 32, 80, 96],
        }
        note = trace.meta.ledger.notes["orphan_parent"]
        assert note.text().startswith("1 request whose parent is not in the file; starts its own session")
        assert note.text().endswith("(line 2)")
