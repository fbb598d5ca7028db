"""Tables of several workloads put together, each row with the model that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.result import Table


def of_model(table: Table, name: str) -> Table:
    """The table with a last column `model`."""
    column = pa.array([name] * table.data.num_rows, pa.string())
    return replace(table, data=table.data.append_column("model", column))


def joined(tables: Sequence[Table]) -> list[Table]:
    """Tables of one name put together, in the order of their first appearance."""
    names = dict.fromkeys(table.name for table in tables)
    return [
        replace(of_name[0], data=pa.concat_tables([table.data for table in of_name]))
        for of_name in ([table for table in tables if table.name == name] for name in names)
    ]
