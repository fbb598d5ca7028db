"""Reuse rates from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope.cache.given_rates import given_rates
from servescope.cache.policies import workload
from servescope.errors import DataError, UsageError
from tests.cache.prompts import hits_of, lay

if TYPE_CHECKING:
    from pathlib import Path


def test_rates_by_category_and_what_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text('{"a": {"text_1": 0.01, "file_9": 2}, "p": {"text_1": 0.8}}')
    rates, notes = given_rates(str(path), ["text_1", "image_1"])
    assert rates.tolist() == [[0.01, 0.8], [0, 1]]
    assert "no rate for image_1" in notes[0] and "file_9" in notes[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": {"x": -1}}', 'rate of "x" is -1'),
        ('{"a": {"x": 1}, "p": {"x": 2}}', 'probability of "x" is 2'),
        ('{"a": {"x": "1"}}', "Expected"),
        ('{"b": {}}', "unknown field"),
        ("", "Input data was truncated"),
        (None, "No such file"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "rates.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError if text is None else DataError, match=says):
        given_rates(str(path), ["x"])


def test_given_rates_decide_from_the_start() -> None:
    """Category 1 is never reused by the file, so its block goes although it is the younger one."""
    laid = lay([(1,), (2,), (3,), (1,)])._replace(categories=np.array([0, 1, 0, 0], np.int32))
    given = laid._replace(rates=np.array([[0.01, 0.8], [0.0, 1.0]]))
    assert hits_of(workload, laid, 2)[0] == [0, 0, 0, 0]
    hits, state = hits_of(workload, given, 2)
    assert hits == [0, 0, 0, 1]
    assert state.scores[0] == pytest.approx([np.log(0.8 * -np.expm1(-0.6)), 0.01])
