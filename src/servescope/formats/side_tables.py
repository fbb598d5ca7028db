"""Side tables of the Chutes trace: model names by chute id, cohorts by user id and rotation round."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from servescope.category import text_buffers
from servescope.errors import DataError, UsageError
from servescope.kernels.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

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


def read_cohorts(path: str) -> tuple[Texts, npt.NDArray[np.int16]]:
    """User keys `ID@ROUND` and, by code, their months of first appearance, from user_id, rehash_round,
    release_cohort.

    Raises UsageError for missing columns, DataError for a value that is no whole number from 0, or a
    key with two of them.
    """
    table = _table(path)
    for column in COHORT_COLUMNS:
        _column(path, table, (column,))
    users, rounds, texts = (_one(table.column(column)) for column in COHORT_COLUMNS)
    rows = np.flatnonzero(pc.fill_null(pc.greater(pc.binary_length(texts), 0), False))
    if len(rows) < len(texts):
        users, rounds, texts = (column.take(pa.array(rows)) for column in (users, rounds, texts))
    months = _months(path, texts, rows)
    keys = pc.binary_join_element_wise(pc.fill_null(users, "None"), pc.fill_null(rounds, ""), "@")
    known = Texts()
    codes = known.add(*text_buffers(keys))
    first = np.full(len(known), -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    differ = np.flatnonzero(months != months[first][codes]) if len(codes) else codes
    if len(differ):
        at = int(differ[0])
        raise DataError(f"{path}: row {rows[at] + 1}: user key {keys[at]} has two cohorts; keep one.")
    return known, months[first]


def _months(path: str, texts: pa.Array, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Month numbers of texts that stand in the given rows. Raises DataError for one that is none."""
    good = pc.and_(pc.string_is_ascii(texts), pc.utf8_is_digit(texts))
    small = pc.and_(good, pc.less_equal(pc.binary_length(pc.utf8_ltrim(texts, "0")), 5))
    numbers = pc.if_else(small, texts, "99999").cast(pa.int64()).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(numbers > LARGEST_COHORT)
    if len(bad):
        at = int(bad[0])
        raise DataError(
            f"{path}: row {rows[at] + 1}: release_cohort {texts[at].as_py()!r} is no month number."
        )
    months: npt.NDArray[np.int16] = numbers.astype(np.int16)
    return months


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


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
