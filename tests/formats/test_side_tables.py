"""Cohorts of user keys from a table of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from servescope.category import Category
from servescope.errors import DataError
from servescope.formats.side_tables import read_cohorts

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "user_id,rehash_round,release_cohort\n"


def test_keys_are_distinct_and_rows_without_a_month_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cohorts.csv"
    path.write_text(HEADER + "b,1,3\na,0,007\nc,2,\na,1,0\nb,1,3\nd,,32767\n")
    keys, months = read_cohorts(str(path))
    expected = {"b@1": 3, "a@0": 7, "a@1": 0, "d@": 32767}
    assert dict(zip(Category(keys).names, months.tolist(), strict=True)) == expected
    path.write_text(HEADER)
    keys, months = read_cohorts(str(path))
    assert len(keys) == len(months) == 0


@pytest.mark.parametrize("month", ["two", "-1", "1.5", "32768", "123456789012345678901", "٣"])
def test_what_is_no_month_is_refused(tmp_path: Path, month: str) -> None:
    path = tmp_path / "cohorts.csv"
    path.write_text(HEADER + f"a,0,1\nb,0,\nc,0,{month}\n")
    with pytest.raises(DataError, match=f"row 3: release_cohort '{month}' is no month number"):
        read_cohorts(str(path))


def test_a_key_with_two_months_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cohorts.csv"
    path.write_text(HEADER + "a,0,1\nb,0,1\na,0,1\na,0,2\n")
    with pytest.raises(DataError, match="row 4: user key a@0 has two cohorts"):
        read_cohorts(str(path))
