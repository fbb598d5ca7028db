"""Checks of a whole trace: each finds what it is for, counts it and names the first row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope.arrays import Columns
from servescope.errors import DataError
from servescope.ledger import Ledger
from servescope.schema import NULL_INT32, NULL_INT64
from servescope.trace import Origin, SourceFact, Trace, TraceMeta
from servescope.validate import refuse_errors, validate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def trace(*, blocks: list[int] | None = None, **changes: ArrayLike) -> Trace:
    """Six good requests, with some columns changed; `blocks` are the lengths of their block lists."""
    values = {
        "request_id": np.arange(6),
        "arrival_us": np.array([0, 5, 5, 9, 10, 20]),
        "completed_us": np.array([3, NULL_INT64, 8, 12, 13, 25]),
        "input_tokens": np.array([16, 17, 32, 33, NULL_INT32, 1], np.int32),
        "output_tokens": np.array([1, 0, 2, NULL_INT32, 3, 4], np.int32),
        "cached_tokens": np.array([16, 0, NULL_INT32, 32, 5, 0], np.int32),
        "parent_id": np.array([NULL_INT64, 0, NULL_INT64, 1, 2, 4]),
        "turn": np.array([1, 2, 1, 3, 2, NULL_INT32], np.int32),
    }
    values |= {name: np.asarray(value, values[name].dtype) for name, value in changes.items()}
    lengths = np.array(blocks or [1, 2, 2, 2, 5, 0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    held = Columns(
        6, values, {}, None, offsets, np.arange(lengths.sum(), dtype=np.uint64), np.zeros(6, np.bool_)
    )
    meta = TraceMeta(
        format="test",
        sources=[SourceFact("made.jsonl", 1, "")],
        decisions=[],
        origin=Origin(),
        columns=held.present(),
        ledger=Ledger(read=6, kept=6),
        block_tokens=16,
    )
    return Trace(meta, held.parts())


def test_a_good_trace_passes_every_check() -> None:
    checks = validate(trace())
    rows = checks.rows()
    assert len(rows) == 10
    assert {row["rows"] for row in rows} == {6}
    assert all(row["failed"] == 0 and row["first_request"] is None for row in rows)
    refuse_errors(trace(), checks)


@pytest.mark.parametrize(
    ("changes", "check", "failed", "first"),
    [
        ({"arrival_us": [0, 5, 4, 9, 8, 20]}, "arrives before the row above", 2, 2),
        ({"request_id": [0, 1, 3, 3, 4, 5]}, "request_id does not count 0, 1, 2 …", 1, 2),
        ({"parent_id": [NULL_INT64, 1, 5, 1, 2, -7]}, "parent is not an earlier request", 3, 1),
        ({"turn": [1, 2, 0, 3, 2, -1]}, "turn is below 1", 2, 2),
    ],
)
def test_errors_are_found_and_refused(
    changes: dict[str, list[int]], check: str, failed: int, first: int
) -> None:
    broken = trace(**changes)
    checks = validate(broken)
    found = [row for row in checks.rows() if row["failed"]]
    assert [(row["check"], row["severity"], row["failed"], row["first_request"]) for row in found] == [
        (check, "error", failed, first)
    ]
    with pytest.raises(DataError, match=rf"made\.jsonl: .*{failed} of 6 rows \(first: request_id {first}\)"):
        refuse_errors(broken, checks)


@pytest.mark.parametrize(
    ("changes", "check", "failed", "first"),
    [
        ({"completed_us": [3, 4, 8, 12, 13, 19]}, "completed before it arrived", 2, 1),
        ({"cached_tokens": [16, 18, 33, 32, 5, 0]}, "more cached than input tokens", 2, 1),
        ({"output_tokens": [1, -1, 2, 0, 3, 4]}, "output_tokens is negative", 1, 1),
        ({"blocks": [1, 2, 3, 2, 5, 1]}, "blocks do not cover the input", 1, 2),
    ],
)
def test_remarks_are_found_and_let_pass(
    changes: dict[str, list[int]], check: str, failed: int, first: int
) -> None:
    odd = trace(**changes)
    checks = validate(odd)
    found = [row for row in checks.rows() if row["failed"]]
    assert [(row["check"], row["severity"], row["failed"], row["first_request"]) for row in found] == [
        (check, "remark", failed, first)
    ]
    refuse_errors(odd, checks)


def test_disorder_between_parts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servescope.arrays.PART_ROWS", 3)
    broken = trace(arrival_us=[0, 5, 8, 7, 10, 20])
    assert len(broken.parts) == 2
    found = [row for row in validate(broken).rows() if row["failed"]]
    assert [(row["failed"], row["first_request"]) for row in found] == [(1, 3)]


def test_columns_that_the_trace_lacks_are_not_checked() -> None:
    whole = trace()
    poor = whole.with_meta(columns=["request_id", "arrival_us"])
    assert [row["check"] for row in validate(poor).rows()] == [
        "arrives before the row above",
        "request_id does not count 0, 1, 2 …",
    ]
