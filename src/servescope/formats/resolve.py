"""Stated sessions: ids of parents and sessions become `request_id`s, sessions and turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.kernels.forest import links, roots

if TYPE_CHECKING:
    from servescope.ledger import Ledger

Ints = npt.NDArray[np.int64]


def dense(keys: Any) -> tuple[Ints, list[str]]:
    """Codes of a column of ids by first appearance: int64[n] (-1 = null), and the texts.

    keys  int64[n] with the null sentinel, or Arrow strings; for numbers the texts are empty
    """
    if isinstance(keys, np.ndarray):
        valid = keys != schema.NULL_INT64
        array = pa.array(keys, mask=~valid)
    else:
        array = keys
    coded = pc.dictionary_encode(array)
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [] if isinstance(keys, np.ndarray) else coded.dictionary.to_pylist()


def match(own: Any, wanted: Any) -> Ints:
    """For each `wanted` id the index of the row whose `own` id it is, -1 if null, -2 if absent."""
    if isinstance(own, np.ndarray):
        own_array = pa.array(own, mask=own == schema.NULL_INT64)
        wanted_array = pa.array(wanted, mask=wanted == schema.NULL_INT64)
    else:
        own_array, wanted_array = own, wanted
    found = pc.index_in(wanted_array, value_set=own_array, skip_nulls=True)
    index: Ints = found.fill_null(-2).to_numpy(zero_copy_only=False).astype(np.int64)
    index[wanted_array.is_null().to_numpy(zero_copy_only=False)] = -1
    return index


def from_parents(columns: dict[str, Any], own: Any, wanted: Any, rows: Ints, ledger: Ledger) -> None:
    """Sessions as trees of stated parents; sets `session_id`, `parent_id` in `columns`.

    own, wanted  ids of the rows and of their parents, in trace order; a parent that is in the
                 trace must come earlier (the assembler has seen to that)
    rows         source lines, for the note

    A session's id is the `request_id` of its first request. A parent that is not in the trace
    leaves `parent_id` null with a note; the stated turn stays. Changes `columns` and `ledger`.
    """
    parent = match(own, wanted)
    orphan = np.flatnonzero(parent == -2)
    for index in orphan[:5]:
        _note_orphan(ledger, 1, int(rows[index]))
    _note_orphan(ledger, len(orphan) - min(len(orphan), 5), None)
    columns["session_id"] = roots(parent)
    columns["parent_id"] = np.where(parent < 0, schema.NULL_INT64, parent)


def _note_orphan(ledger: Ledger, count: int, line: int | None) -> None:
    ledger.note(
        "orphan_parent",
        "{n} request whose parent is not in the file; starts its own session, its turn is kept as stated",
        "{n} requests whose parent is not in the file; each starts its own session, turns are kept as stated",
        count=count,
        line=line,
    )


def from_sessions(columns: dict[str, Any], keys: Any, *, parents: bool) -> list[str]:
    """Sessions by stated id; sets `session_id`, and `turn`, `parent_id` where not stated.

    keys     ids of the sessions in trace order, null for none
    parents  whether `parent_id` is already set from stated parents

    Turns are numbered in arrival order inside the session, the parent is the session's previous
    request. Returns the texts of the sessions by id. Changes `columns`.
    """
    codes, names = dense(keys)
    columns["session_id"] = np.where(codes < 0, schema.NULL_INT64, codes)
    previous, turn = links(codes)
    if "turn" not in columns:
        columns["turn"] = np.where(turn == 0, schema.NULL_INT32, turn).astype(np.int32)
    if not parents:
        columns["parent_id"] = np.where(previous < 0, schema.NULL_INT64, previous)
    return names
