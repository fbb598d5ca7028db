"""Physical lines: like splitting the whole text, whatever the pieces."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.errors import DataError
from servescope.formats import lines, source
from servescope.formats.format import Context, ReadOptions
from servescope.formats.lines import read_lines
from servescope.formats.source import open_source

if TYPE_CHECKING:
    from pathlib import Path


def all_of(path: Path) -> tuple[list[tuple[int, bytes]], int]:
    context = Context(ReadOptions())
    got = [
        (int(number), text)
        for piece in read_lines(open_source(str(path)), context)
        for number, text in zip(piece.numbers, piece.texts, strict=True)
    ]
    note = context.ledger.notes.get("blank_lines")
    return got, note.count if note else 0


def plain(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """The slow twin."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    physical = data.split(b"\n")
    if physical[-1] == b"":
        physical.pop()
    numbered = [(number, line.rstrip(b"\r")) for number, line in enumerate(physical, 1)]
    kept = [(number, line) for number, line in numbered if line.strip()]
    return kept, len(numbered) - len(kept)


@given(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b" ", b"\t", b"\r", b"xyz", "é".encode()]), max_size=30),
    st.integers(3, 9),
)
def test_like_splitting_the_whole(
    tmp_path_factory: pytest.TempPathFactory, mark: bytes, parts: list[bytes], step: int
) -> None:
    data = mark + b"".join(parts)
    path = tmp_path_factory.mktemp("lines") / "x"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "READ_BYTES", step)
        assert all_of(path) == plain(data)


def test_line_numbers_run_on_across_members(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\n\nb") + gzip.compress(b"c\r\n") + gzip.compress(b"d"))
    assert all_of(path) == ([(1, b"a"), (3, b"bc"), (4, b"d")], 1)


def test_a_file_without_line_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "READ_BYTES", 4)
    monkeypatch.setattr(lines, "LINE_LIMIT_BYTES", 16)
    path = tmp_path / "x"
    path.write_bytes(b"ab\n" + b"c" * 40)
    with pytest.raises(DataError, match=r"x:2: a line of over 256 MB"):
        all_of(path)
