"""The requests of a trace with their sessions beside them, as canonical Parquet."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servescope import schema
from servescope.sessions.reconstruct import from_kept
from servescope.sessions.rule import PARENT, PREFIX, REQUEST, SESSION, TURN
from servescope.trace_write import write_canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from servescope.sessions.held import Held
    from servescope.sessions.reconstruct import InOrder
    from servescope.trace import Part, Trace

Ints = npt.NDArray[np.int64]
REBUILT = ("session_id", "parent_id", "turn")


class PartLinks(NamedTuple):
    """Links of the rows of a part.

    session, parent, prefix_tokens  int64[rows], `schema.NULL_INT64` for null
    turn                            int64[rows], 0 where the row takes no part
    """

    session: Ints
    parent: Ints
    turn: Ints
    prefix_tokens: Ints


class Source(Protocol):
    """Where the links of a part come from."""

    def part(self, index: int, start: int, rows: int) -> PartLinks:
        """Links of part `index`: `rows` rows, the first of which is request `start`."""
        ...


@dataclass(frozen=True)
class Memory:
    """Links of whole columns in memory."""

    held: Held

    def part(self, index: int, start: int, rows: int) -> PartLinks:
        """See `Source`."""
        links, own = self.held.links, slice(start, start + rows)
        turn = links.turn[own].astype(np.int64)
        out = turn == 0
        unknown = out | self.held.unknown[own]
        return PartLinks(
            np.where(out, schema.NULL_INT64, links.session[own]),
            np.where(links.parent[own] < 0, schema.NULL_INT64, links.parent[own]),
            turn,
            np.where(unknown, schema.NULL_INT64, links.prefix_tokens[own]),
        )


@dataclass(frozen=True)
class Rebuilt:
    """Links that stand where the records were that they were made of."""

    kept: InOrder

    def part(self, index: int, start: int, rows: int) -> PartLinks:
        """See `Source`."""
        links = from_kept(self.kept.records(index))
        at = links[:, REQUEST] - start
        session, parent, prefix = np.full((3, rows), schema.NULL_INT64)
        made = PartLinks(session, parent, np.zeros(rows, np.int64), prefix)
        made.session[at], made.turn[at], made.prefix_tokens[at] = (
            links[:, k] for k in (SESSION, TURN, PREFIX)
        )
        made.parent[at] = np.where(links[:, PARENT] < 0, schema.NULL_INT64, links[:, PARENT])
        return made


@dataclass(frozen=True)
class LinkedPart:
    """A part of a trace with other session columns, and with `prefix_tokens`.

    inner   the part as it was
    index   which one it is
    start   `request_id` of its first row
    source  of its links
    stated  whether its own ids of sessions and parents are kept where a row takes part
    """

    inner: Part
    index: int
    start: int
    source: Source
    stated: bool

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.inner.rows

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        held = self.inner.arrow([name for name in columns if name in schema.BY_NAME])
        links = self.source.part(self.index, self.start, self.rows)
        out = links.turn == 0
        turn = np.where(out, schema.NULL_INT32, links.turn).astype(np.int32)
        new = {
            "session_id": _nullable(links.session, schema.NULL_INT64),
            "parent_id": _nullable(links.parent, schema.NULL_INT64),
            "turn": _nullable(turn, schema.NULL_INT32),
        }
        for name in new:
            if name in held.column_names:
                place = held.schema.get_field_index(name)
                column = self._masked(held.column(name), out) if self.stated else new[name]
                held = held.set_column(place, held.schema.field(name), column)
        if schema.PREFIX_TOKENS in columns:
            held = held.append_column(schema.PREFIX_TOKENS, _nullable(links.prefix_tokens, schema.NULL_INT64))
        return held

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`."""
        links = self.source.part(self.index, self.start, self.rows)
        digest = hashlib.sha256(self.inner.fingerprint().encode())
        for values in links:
            digest.update(values.tobytes())
        return digest.hexdigest()

    @staticmethod
    def _masked(column: pa.ChunkedArray, out: npt.NDArray[np.bool_]) -> pa.ChunkedArray:
        return pc.if_else(pa.array(out), None, column) if out.any() else column


def _nullable(values: npt.NDArray[np.signedinteger], null: int) -> pa.Array:
    return pa.array(values, mask=values == null)


def with_sessions(trace: Trace, source: Source, rule: str, said: str) -> Trace:
    """The same requests with their sessions in the columns of the canonical trace.

    said  one sentence on how the sessions were found
    """
    stated = rule == "stated"
    parts = tuple(
        LinkedPart(part, index, trace.starts[index], source, stated) for index, part in enumerate(trace.parts)
    )
    columns = [name for name in schema.NAMES if trace.has(name) or (name in REBUILT and not stated)]
    changed = trace.with_meta(
        columns=columns,
        decisions=[*trace.meta.decisions, said],
        session_names=trace.meta.session_names if stated else [],
    )
    return type(trace)(changed.meta, parts, trace.rejects)


def write_sessions(
    trace: Trace,
    source: Source,
    target: Path,
    *,
    rule: str,
    said: str,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write all requests to `target`, whole or not at all; `prefix_tokens` is the last column."""
    linked = with_sessions(trace, source, rule, said)
    write_canonical(linked, target, progress=progress, added=(schema.PREFIX_TOKENS,))
