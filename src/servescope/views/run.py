"""The views of a trace as tables, with the row slices that are asked for: one scan, one reading again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.result import Table
from servescope.views.raster_rows import write_raster_rows
from servescope.views.scan import run_views
from servescope.views.sketch import ViewOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servescope.trace import Trace

RUNNING = ("threads", "engine", "address", "folder", "resume", "progress")  # how a scan runs


def view_tables(
    trace: Trace, names: Sequence[str], options: Mapping[str, Any]
) -> tuple[list[Table], list[str], Table]:
    """Tables and notes of the views, and the scan's timing, which differs from run to run.

    options  of the run (`RUNNING`), fields of `ViewOptions`; rows: the folder in which to write row slices
    """
    running = {name: options[name] for name in RUNNING if name in options}
    shape = {name: value for name, value in options.items() if name not in (*RUNNING, "rows")}
    fields: dict[str, Any] = {name: tuple(value) for name, value in shape.items() if value is not None}
    chosen = ViewOptions(**fields)
    folder = options.get("rows")
    if folder is not None:
        chosen = replace(chosen, rows=str((folder / "rows").absolute()))
    tables, notes, timing = run_views(trace, list(names) or None, options=chosen, **running)
    if folder is not None:
        notes += write_raster_rows(trace, tables, chosen, folder / "tables")
        if not (folder / "rows").exists():
            notes.append("lb_rows is not written: the balance tables are not made, or hold no request")
    doc = "How fast the scan ran: rows, seconds, rows per second, peak memory of the process in bytes."
    return tables, notes, Table("timing", pa.Table.from_pylist([timing]), doc)
