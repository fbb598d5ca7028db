"""Side tables of the Chutes trace: model names by chute id, cohorts by user id and rotation round."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from servescope.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

ID_COLUMNS = ("chute_id", "id")
NAME_COLUMNS = ("name", "model_name", "chute_name", "model")
COHORT_COLUMNS = ("user_id", "rehash_round", "release_cohort")
LARGEST_COHORT = 2**15 - 1


def read_model_names(path: str) -> tuple[dict[str, str], int]:
    """Chute id -> model name, and how many names stand for several ids.

    A name of several ids gets the id behind it, `NAME [ID]`: merging them would turn two deployments
    into one model. A null name is left out, so its id stays.

    Raises UsageError for a table without the two columns, DataError for an id with two names.
    """
    table = _table(path)
    key, name = _column(path, table, ID_COLUMNS), _column(path, table, NAME_COLUMNS)
    names: dict[str, str] = {}
    for row, (chute, text) in enumerate(
        zip(*(table.column(c).to_pylist() for c in (key, name)), strict=True)
    ):
        if not chute or not text:
            continue
        if names.setdefault(chute, text) != text:
            raise DataError(
                f'{path}: row {row + 1}: {key} {chute} is "{names[chute]}" and "{text}"; keep one.'
            )
    counts = Counter(names.values())
    shared = {text for text, count in counts.items() if count > 1}
    return {c: f"{text} [{c}]" if text in shared else text for c, text in names.items()}, len(shared)


def read_cohorts(path: str) -> dict[str, int]:
    """User key `ID@ROUND` -> month of first appearance, from user_id, rehash_round, release_cohort.

    Raises UsageError for missing columns, DataError for a value that is no whole number from 0.
    """
    table = _table(path)
    for column in COHORT_COLUMNS:
        _column(path, table, (column,))
    users, rounds, months = (table.column(column).to_pylist() for column in COHORT_COLUMNS)
    cohorts: dict[str, int] = {}
    for row, (user, turn, text) in enumerate(zip(users, rounds, months, strict=True)):
        if not text:
            continue
        month = int(text) if text.isascii() and text.isdigit() else -1
        if not 0 <= month <= LARGEST_COHORT:
            raise DataError(f"{path}: row {row + 1}: release_cohort {text!r} is no month number.")
        key = f"{user}@{turn or ''}"
        if cohorts.setdefault(key, month) != month:
            raise DataError(f"{path}: row {row + 1}: user key {key} has two cohorts; keep one.")
    return cohorts


def _table(path: str) -> pa.Table:
    """A CSV or Parquet file whose columns are all texts."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{path}: no such file.")
    try:
        with file.open("rb") as opened:
            parquet = opened.read(4) == b"PAR1"
        if parquet:
            table = pq.read_table(file, partitioning=None)
            return table.cast(pa.schema([pa.field(name, pa.string()) for name in table.column_names]))
        header = pacsv.open_csv(file).schema.names
        kinds = dict.fromkeys(header, pa.string())
        return pacsv.read_csv(
            file, convert_options=pacsv.ConvertOptions(column_types=kinds, strings_can_be_null=True)
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as a table ({str(error).splitlines()[0]}).") from error


def _column(path: str, table: pa.Table, names: Sequence[str]) -> str:
    found = next((name for name in names if name in table.column_names), None)
    if found is None:
        raise UsageError(
            f"{path}: no column {' or '.join(names)}; it has {', '.join(table.column_names[:12])}."
        )
    return found
