"""Rows that a skipping read left out: as a result table and as a file beside the output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from servescope.files import atomic
from servescope.ledger import Rejects
from servescope.result import SMALL_ROWS, Table

if TYPE_CHECKING:
    from servescope.files import PathLike

FIELDS = ("file", "line", "field", "value", "reason", "remedy")
DOC = "One row left out by --on-bad-row skip: where it stands, what is wrong with it, what can be done."
SCHEMA = pa.schema([(name, pa.int64() if name == "line" else pa.string()) for name in FIELDS])


def rejects_table(rejects: Rejects) -> Table:
    """The first faults as the table `rejects`: file, line, field, value, reason, remedy.

    At most `SMALL_ROWS`, so that the JSON document always has them; see `cut_note`.
    """
    rows = [{name: getattr(fault, name) for name in FIELDS} for fault in rejects.faults[:SMALL_ROWS]]
    return Table("rejects", pa.Table.from_pylist(rows, SCHEMA), DOC)


def cut_note(rejects: Rejects) -> list[str]:
    """What to tell the reader where the table does not list every rejected row."""
    if rejects.total <= SMALL_ROWS:
        return []
    return [
        f"{rejects.total:,} rows were rejected; the table rejects lists the first {SMALL_ROWS:,}, "
        f"OUT.rejects.jsonl the first {len(rejects.faults):,}"
    ]


def without_values(rejects: Rejects) -> Rejects:
    """The same faults without the offending values, which may hold text of a prompt."""
    bare = Rejects()
    bare.faults = [replace(fault, value="") for fault in rejects.faults]
    bare.total = rejects.total
    return bare


def write_rejects(rejects: Rejects, out: PathLike) -> Path | None:
    """Write the faults to `OUT.rejects.jsonl`, one JSON object a line; None where there are none.

    A file that an earlier run left there is removed, so that it cannot be taken for this run's.
    """
    target = Path(out).with_name(f"{Path(out).name}.rejects.jsonl")
    if not rejects.faults:
        target.unlink(missing_ok=True)
        return None
    with atomic(target) as part, part.open("wb") as file:
        for fault in rejects.faults:
            file.write(msgspec.json.encode({name: getattr(fault, name) for name in FIELDS}) + b"\n")
    return target
