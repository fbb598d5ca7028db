"""Tables in a folder, read when they are asked for: a year's tables together are gigabytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from servescope.errors import DataError
from servescope.result import Table, read_table

if TYPE_CHECKING:
    from pathlib import Path

LARGE_ROWS = 100_000
KEPT = 2  # large tables that are held at a time: neighbouring figures share theirs


class Shape(NamedTuple):
    """What is known of a table without its rows: their number, the columns, what a row is."""

    rows: int
    columns: tuple[str, ...]
    doc: str


def shape_of(table: Table) -> Shape:
    """The shape of a table in memory."""
    return Shape(table.data.num_rows, tuple(table.data.column_names), table.doc)


class Stored(Mapping[str, Table]):
    """The tables `folder/*.parquet` by name. Small ones are kept once read, and the last few large ones.

    shapes  name -> shape, known before any table is read

    Raises DataError where a file cannot be read, when it is opened or when its table is asked for.
    """

    def __init__(self, folder: Path, adapt: Callable[[Table], Table]) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
        self._adapt = adapt
        self._held: OrderedDict[str, Table] = OrderedDict()
        self.shapes = {name: self._shape(path) for name, path in self._paths.items()}

    def _shape(self, path: Path) -> Shape:
        try:
            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
                doc = (schema.metadata or {}).get(b"doc", b"").decode()
                return Shape(file.metadata.num_rows, tuple(schema.names), doc)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None

    def __getitem__(self, name: str) -> Table:
        if name not in self._held:
            path = self._paths[name]
            large = [held for held in self._held if self.shapes[held].rows > LARGE_ROWS]
            if self.shapes[name].rows > LARGE_ROWS and len(large) >= KEPT:
                del self._held[large[0]]
            try:
                self._held[name] = self._adapt(read_table(path))
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(path, error) from None
        self._held.move_to_end(name)
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: a table cannot be read ({error}). Run the report again.")
