"""CSV reading: the fast way, the exact way and the slow twin agree, line numbers included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import DataError
from servescope.formats import csvexact, csvrows, source
from servescope.formats.csvrows import read_csv, read_header
from servescope.formats.format import Context, ReadOptions
from servescope.formats.source import Source
from tests.reference import csv_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Bytes(Source):
    """A source that hands out given bytes in pieces of `step`."""

    data: bytes = b""
    step: int = 1 << 20

    def head(self) -> bytes:
        return self.data[: source.HEAD_BYTES]

    def blocks(self, progress: Callable[[int, int | None], None] | None = None) -> Iterator[bytes]:
        del progress
        for low in range(0, len(self.data), self.step):
            yield self.data[low : low + self.step]


@dataclass
class Read:
    """All that a read gave."""

    lines: list[int] = field(default_factory=list)
    rows: list[list[str] | None] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    blank: int = 0


def all_of(data: bytes, step: int = 1 << 20, wanted: list[str] | None = None) -> Read:
    given_source = Bytes("x.csv", None, None, data, step)  # type: ignore[arg-type]
    context = Context(ReadOptions())
    header = read_header(given_source)
    out = Read()
    for piece in read_csv(given_source, context, header, header.names if wanted is None else wanted):
        lists = [column.to_pylist() for column in piece.columns.values()]
        for index, line in enumerate(piece.lines.tolist()):
            bad = piece.faults.get(index)
            out.lines.append(line)
            out.rows.append(None if bad else [values[index] for values in lists])
            if bad:
                assert bad.line == line
                out.reasons[line] = bad.reason
    note = context.ledger.notes.get("blank_lines")
    out.blank = note.count if note else 0
    return out


letters = st.sampled_from('ab,"\n\r \té✓1')
texts = st.text(letters, max_size=60)
headers = st.sampled_from(["x\n", "x,y\n", "x,y,z\n"])


@settings(max_examples=400)
@given(headers, texts, st.integers(1, 80))
def test_like_the_slow_twin(header: str, text: str, step: int) -> None:
    expected, blank = csv_rows.rows(header + text, header.count(",") + 1)
    got = all_of((header + text).encode(), step)
    assert got.lines == [row.line for row in expected]
    assert got.rows == [row.fields for row in expected]
    assert got.blank == blank


plain_field = st.text("ab 1.-é", max_size=5)


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(plain_field, min_size=n, max_size=n), min_size=1)),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_fast_way_equals_exact_way(rows: list[list[str]], end: str, final: bool) -> None:
    width = len(rows[0])
    text = end.join(",".join(row) for row in rows) + (end if final else "")
    data = text.encode()
    reading = {"width": width, "picked": {f"c{i}": i for i in range(width)}, "number": 2}
    given_source: Any = Bytes("x.csv", None, None, data)  # type: ignore[arg-type]
    plain = csvrows.plain(data, csvrows._Reading(given_source, Context(ReadOptions()), **reading))
    context = Context(ReadOptions())
    _, exact = csvrows.exact(data, csvrows._Reading(given_source, context, **reading), last=True)
    if any(not line.strip() for line in text.removesuffix("\n").split("\n")):
        assert plain is None
    else:
        assert plain is not None
        assert not plain.faults
        assert plain.lines.tolist() == exact.lines.tolist()
        assert {k: v.to_pylist() for k, v in plain.columns.items()} == {
            k: v.to_pylist() for k, v in exact.columns.items()
        }
        assert not exact.faults
        assert context.ledger.notes == {}


def test_a_clean_file_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the exact way was taken")

    monkeypatch.setattr(csvrows, "exact_rows", refuse)
    got = all_of(b"a,b\r\n" + b"1,x\r\n" * 999 + b"2,y", step=64)
    assert got.lines == list(range(2, 1002))
    assert got.rows == [["1", "x"]] * 999 + [["2", "y"]]


def test_quoted_newlines_keep_physical_lines_across_pieces() -> None:
    data = b'a,b\n"one\ntwo",2\n\n3,"say ""hi"""\n4,5\n'
    for step in range(1, len(data) + 1):
        got = all_of(data, step)
        assert got.lines == [2, 5, 6], step
        assert got.rows == [["one\ntwo", "2"], ["3", 'say "hi"'], ["4", "5"]]
        assert got.blank == 1


def test_faults_and_their_lines() -> None:
    data = b'a,b\n1,2\n3\n4,5,6\n"7"x,8\n9,\xff\n10,1\r1\n"open,12\n13,14\n'
    got = all_of(data)
    assert got.lines == [2, 3, 4, 5, 6, 7, 8, 9]
    assert got.reasons == {
        3: "1 field, 2 expected",
        4: "3 fields, 2 expected",
        5: "text after a closing quote",
        6: "not UTF-8 text",
        7: "a carriage return inside a field without quotes",
        8: "a quote is opened and never closed",
    }
    assert [row for row in got.rows if row] == [["1", "2"], ["13", "14"]]


def test_a_stray_quote_costs_its_own_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvexact, "QUOTED_LIMIT_BYTES", 200)
    rows = [f"{i},x" for i in range(2, 402)]
    rows[100] = '102,"x'
    got = all_of(("a,b\n" + "\n".join(rows)).encode(), step=50)
    assert got.reasons == {102: "a quote is opened and never closed"}
    assert got.lines == list(range(2, 402))
    assert [row[0] for row in got.rows if row] == [str(i) for i in range(2, 402) if i != 102]


def test_only_the_wanted_columns_are_looked_at() -> None:
    data = b"a,b,c\n1,\xff,3\n4,5,6\n"
    assert all_of(data, wanted=["c", "a"]).rows == [["3", "1"], ["6", "4"]]
    assert all_of(data).reasons == {2: "not UTF-8 text"}


def test_the_fault_names_the_column_and_shows_the_bytes() -> None:
    given_source = Bytes("x.csv", None, None, b"a,b\n1,caf\xe9\n")  # type: ignore[arg-type]
    (piece,) = read_csv(given_source, Context(ReadOptions()), read_header(given_source), ["b"])
    found = piece.faults[0]
    assert (found.file, found.line, found.field, found.reason) == ("x.csv", 2, "b", "not UTF-8 text")
    assert "xe9" in found.value


@pytest.mark.parametrize(
    ("data", "names", "lines", "blank"),
    [
        (b"a,b\n1,2\n", ["a", "b"], 1, 0),
        (b'\xef\xbb\xbf"a","b c"\r\n', ["a", "b c"], 1, 0),
        (b"\n  \r\na,b", ["a", "b"], 3, 2),
        (b'"two\nlines",b\n1,2\n', ["two\nlines", "b"], 2, 0),
        (b",a\n0,1\n", ["", "a"], 1, 0),
        ("a\u2028b\x0bc,d\n1,2\n".encode(), ["a\u2028b\x0bc", "d"], 1, 0),
    ],
)
def test_header(data: bytes, names: list[str], lines: int, blank: int) -> None:
    header = read_header(Bytes("x.csv", None, None, data))  # type: ignore[arg-type]
    assert (header.names, header.lines, header.blank) == (names, lines, blank)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no header"),
        (b"\n\n", "no header"),
        (b"a,b,a\n1,2,3\n", "names a more than once"),
        (b'"a,b\n1,2\n', "not a CSV row"),
        (b"\xff\xfea\n", "not UTF-8"),
        (b"a," * 40_000 + b"\n1\n", "no end of the header in 64 KiB"),
    ],
)
def test_bad_headers(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_header(Bytes("x.csv", None, None, data))  # type: ignore[arg-type]


def test_the_limit_of_the_csv_module_is_put_back(tmp_path: Path) -> None:
    import csv

    before = csv.field_size_limit()
    wide = "x" * (before + 10)
    assert all_of(f'a\n"{wide}"\n'.encode()).rows == [[wide]]
    assert csv.field_size_limit() == before
