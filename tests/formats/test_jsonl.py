"""JSON lines: rows that decode are kept in place, the others say what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.formats.format import Context, ReadOptions
from servescope.formats.jsonl import read_rows
from servescope.formats.source import open_source

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.errors import Fault


class Inner(msgspec.Struct):
    """A nested object."""

    tokens: int = 0


class Row(msgspec.Struct):
    """One line."""

    count: int
    name: str | None = None
    ids: list[int] | None = None
    usage: Inner | None = None


def decoded(path: Path) -> tuple[list[int], list[Row], dict[int, Fault]]:
    lines: list[int] = []
    rows: list[Row] = []
    faults: dict[int, Fault] = {}
    for piece in read_rows(open_source(str(path)), Context(ReadOptions()), Row, Row(-1)):
        assert len(piece.lines) == len(piece.rows)
        faults |= {len(rows) + index: found for index, found in piece.faults.items()}
        lines += piece.lines.tolist()
        rows += piece.rows
    return lines, rows, faults


@pytest.mark.parametrize(
    ("line", "field", "value", "reason", "rule"),
    [
        ('{"count": 1.5}', "count", "1.5", "a whole number was expected", "wrong_type"),
        ('{"count": "7"}', "count", '"7"', "a whole number was expected", "wrong_type"),
        ('{"count": null}', "count", "null", "a whole number was expected", "wrong_type"),
        ('{"count": true}', "count", "true", "a whole number was expected", "wrong_type"),
        ('{"name": "x"}', "count", "", "missing", "missing"),
        ('{"count": 1, "name": 5}', "name", "5", "a text was expected", "wrong_type"),
        ('{"count": 1, "ids": [1, "a"]}', "ids", '"a"', "a whole number was expected", "wrong_type"),
        (
            '{"count": 1, "usage": {"tokens": "x"}}',
            "usage.tokens",
            '"x"',
            "a whole number was expected",
            "wrong_type",
        ),
        ("[1, 2]", "", "", "row is an array, an object was expected", "not_an_object"),
        ("5", "", "", "row is an int, an object was expected", "not_an_object"),
        ('{"count": 1', "", "", "invalid JSON at column 12 (the line ends too early)", "invalid_json"),
        ('{"count": 1}}', "", "", "invalid JSON at column 13", "invalid_json"),
        ('{"count": 1} {"count": 2}', "", "", "invalid JSON at column 14", "invalid_json"),
        ("\ufeff{}", "", "", "invalid JSON at column 1", "invalid_json"),
    ],
)
def test_faults(tmp_path: Path, line: str, field: str, value: str, reason: str, rule: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"count": 1}\n\n' + line + '\n{"count": 2}\n')
    lines, rows, faults = decoded(path)
    assert lines == [1, 3, 4]
    assert [row.count for row in rows] == [1, -1, 2]
    found = faults.pop(1)
    assert faults == {}
    assert (found.line, found.field, found.value, found.reason, found.rule) == (3, field, value, reason, rule)
    assert found.file == str(path)


def test_invalid_utf8_and_deep_nesting(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"count": 1, "name": "\xff"}\n' + b'{"a":' * 5_000 + b"\n")
    _, _, faults = decoded(path)
    assert {index: found.rule for index, found in faults.items()} == {0: "invalid_json", 1: "invalid_json"}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
objects = st.fixed_dictionaries(
    {}, optional={"count": values, "name": values, "ids": values, "usage": values, "other": values}
)


@given(st.lists(objects | values, max_size=6))
def test_a_row_is_good_exactly_if_it_decodes(
    tmp_path_factory: pytest.TempPathFactory, items: list[object]
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    texts = [msgspec.json.encode(item) if not _wide(item) else b"{" for item in items]
    path.write_bytes(b"\n".join(texts))
    _, rows, faults = decoded(path)
    assert len(rows) == len(items)
    for index, text in enumerate(texts):
        try:
            expected = msgspec.json.decode(text, type=Row)
        except msgspec.DecodeError:
            assert faults[index].line == index + 1
            assert faults[index].reason
        else:
            assert index not in faults
            assert rows[index] == expected


def _wide(item: object) -> bool:
    """Whether an integer is too wide to be encoded by the test itself."""
    if isinstance(item, dict):
        return any(map(_wide, item.values()))
    if isinstance(item, list):
        return any(map(_wide, item))
    return isinstance(item, int) and not -(2**63) <= item < 2**64
