"""Tables of several workloads, each row with the model that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from servescope.result import Table


def of_model(table: Table, name: str) -> Table:
    """The table with a last column `model`."""
    column = pa.array([name] * table.data.num_rows, pa.string())
    return replace(table, data=table.data.append_column("model", column))
