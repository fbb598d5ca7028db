"""From chunks in source order to one trace in time order."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.arrays import Columns
from servescope.errors import BadRowError, DataError, Fault
from servescope.formats import delta, resolve
from servescope.formats.chained import is_chained
from servescope.formats.format import SKIP_REMEDY, Chunk, texts
from servescope.kernels.jit import kernel
from servescope.trace import Origin, Trace, TraceMeta
from servescope.units import ns_to_us

if TYPE_CHECKING:
    from servescope.formats.format import Context
    from servescope.ledger import Rejects
    from servescope.trace import SourceFact

SPILL_BYTES = 512 << 20  # block ids beyond this go to a temporary file, memory-mapped afterwards
TEXTS = (*schema.CATEGORIES, "source_id", "own_key", "parent_key", "session_key")


class BlockSpool:
    """Block ids in source order: in memory, or in a temporary file once they are many."""

    def __init__(self) -> None:
        self._pieces: list[npt.NDArray[np.uint64]] = []
        self._held_bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, values: npt.NDArray[np.uint64]) -> None:
        """Append the ids of one chunk."""
        self._pieces.append(values)
        self._held_bytes += values.nbytes
        if self._held_bytes > SPILL_BYTES:
            self._file = self._file or tempfile.TemporaryFile(prefix="servescope-")  # noqa: SIM115
            for piece in self._pieces:
                self._file.write(piece.tobytes())
            self._pieces, self._held_bytes = [], 0

    def values(self) -> npt.NDArray[np.uint64]:
        """All ids; memory-mapped if they were spilled. Ends the spool."""
        if self._file is None:
            return np.concatenate([np.zeros(0, np.uint64), *self._pieces])
        with self._file:  # the map outlives the file
            for piece in self._pieces:
                self._file.write(piece.tobytes())
            self._file.flush()
            return np.memmap(self._file, np.uint64, "r")


@dataclass
class Assembler:
    """Collects the good rows of chunks; `trace` ends it. Every call changes it.

    context  of the read; its ledger gets repairs and notes
    """

    context: Context
    base_ns: int | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    texts: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: list[npt.NDArray[np.int64]] = field(default_factory=list)
    blocks: BlockSpool = field(default_factory=BlockSpool)
    lengths: list[npt.NDArray[np.int32]] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)
    rows: int = 0

    def add(self, chunk: Chunk, file: str) -> None:
        """Take the rows of `chunk` that have no fault; `file` is named in later faults."""
        good = np.ones(chunk.rows, np.bool_)
        good[list(chunk.faults)] = False
        all_good = not chunk.faults
        self.lines.append(chunk.lines[good])
        for name, values in chunk.columns.items():
            self.columns.setdefault(name, []).append(
                self._column(name, values, None if all_good else good, chunk)
            )
        if chunk.block_lengths is not None and chunk.blocks is not None:
            self._add_blocks(chunk.blocks, chunk.block_lengths, good)
        self.files.append((file, int(good.sum())))
        self.rows += int(good.sum())

    def _add_blocks(
        self, values: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int32], good: npt.NDArray[np.bool_]
    ) -> None:
        self.lengths.append(lengths[good])
        self.blocks.add(values if good.all() else values[np.repeat(good, np.maximum(lengths, 0))])

    def _column(self, name: str, values: Any, good: npt.NDArray[np.bool_] | None, chunk: Chunk) -> Any:
        if name in TEXTS and not isinstance(values, np.ndarray):
            array = texts(values)
            array = array if good is None else array.filter(pa.array(good))
            return self._codes(name, array) if name in schema.CATEGORIES else array
        picked = values if good is None else values[good]
        return self._rebased(picked, chunk.base_ns) if name in ("time_ns", "completed_ns") else picked

    def _codes(self, name: str, array: pa.Array) -> npt.NDArray[np.int32]:
        coded = array.dictionary_encode()
        table = self.texts.setdefault(name, {})
        mapping = [table.setdefault(text, len(table)) for text in coded.dictionary.to_pylist()]
        codes = np.array([*mapping, schema.NULL_CODE], np.int32)
        picked: npt.NDArray[np.int32] = codes[
            coded.indices.fill_null(len(mapping)).to_numpy(zero_copy_only=False)
        ]
        return picked

    def _rebased(self, ns: npt.NDArray[np.int64], base_ns: int) -> npt.NDArray[np.int64]:
        if self.base_ns is None:
            self.base_ns = base_ns
        shift = base_ns - self.base_ns
        if abs(shift) >= 2**62:
            raise DataError("the sources' times are more than 146 years apart; read them one by one.")
        return np.where(ns == schema.NULL_INT64, ns, ns + shift) if shift else ns

    def trace(self, format_name: str, sources: list[SourceFact], rejects: Rejects) -> Trace:
        """The trace of all rows taken: ordered by time (ties in source order), ids resolved.

        A row whose stated parent does not come earlier is bad: it stops a strict read
        (BadRowError) and is left out of a skipping one. Changes `rejects` and the ledger.
        """
        self._drop_unstated()
        order = self._without_early_children(self._order(), rejects)
        values = {name: _joined(parts, order) for name, parts in self.columns.items()}
        values["source_row"] = _joined(self.lines, order)
        times = values.pop("time_ns", None)
        origin = self._origin(None if self.context.origin == "none" else times)
        self._times(values, times, origin)
        wanted = values.get("parent_key")
        session_names = self._sessions(values)
        if self.context.options.delta_prompts:
            orphan = None if wanted is None else _orphans(wanted, values["parent_id"])
            delta.restore(values, orphan, self.context)
        values["request_id"] = np.arange(self.rows, dtype=np.int64)
        held = self._columns(values, order)
        chained = None
        if held.block_values is not None and held.block_offsets is not None:
            chained = is_chained(held.block_values, held.block_offsets)
        meta = TraceMeta(
            format=format_name,
            sources=sources,
            decisions=self.context.decisions,
            origin=origin,
            columns=held.present(),
            ledger=self.context.ledger,
            block_tokens=self.context.block_tokens if held.block_values is not None else None,
            chained=chained,
            session_names=session_names,
        )
        return Trace(meta, held.parts(), rejects)

    def _drop_unstated(self) -> None:
        """Forget optional columns without a value: the source lacks them, whatever its schema says."""
        for name in self.context.optional & self.columns.keys():
            if all(_is_null(name, part).all() for part in self.columns[name]):
                del self.columns[name]
        if "parent_key" not in self.columns:
            self.columns.pop("own_key", None)

    def _order(self) -> npt.NDArray[np.int64] | None:
        """Stable order by time, None where it is the source's. Notes the disorder."""
        if self.context.origin == "none":
            return None
        times = np.concatenate([np.zeros(0, np.int64), *self.columns["time_ns"]])
        early = int((np.diff(times) < 0).sum())
        if not early:
            return None
        self.context.ledger.repair("sorted", early)
        self.context.ledger.note(
            "sorted",
            "{n} row was earlier than the row before it; sorted",
            "{n} rows were earlier than the row before them; sorted",
            count=early,
        )
        return np.argsort(times, kind="stable")

    def _origin(self, times: npt.NDArray[np.int64] | None) -> Origin:
        """The origin of the rows kept; notes shared timestamps. `times` is in trace order."""
        if times is None or not len(times):
            return Origin(self.context.origin)
        self._note_ties(times)
        return Origin(self.context.origin, int(times[0]) + (self.base_ns or 0))

    def _note_ties(self, times: npt.NDArray[np.int64]) -> None:
        counts = np.diff(np.flatnonzero(np.concatenate([[True], np.diff(times) != 0, [True]])))
        shared = counts[counts > 1]
        if len(shared):
            self.context.ledger.note(
                "shared_timestamps",
                f"{{n}} timestamp is shared by {int(shared.sum()):,} requests",
                f"{{n}} timestamps are shared by {int(shared.sum()):,} requests",
                count=len(shared),
            )

    def _without_early_children(
        self, order: npt.NDArray[np.int64] | None, rejects: Rejects
    ) -> npt.NDArray[np.int64] | None:
        """The order without rows whose stated parent is not earlier in the trace."""
        if "own_key" not in self.columns or "parent_key" not in self.columns:
            return order
        own, wanted = (_joined(self.columns[name], order) for name in ("own_key", "parent_key"))
        early = resolve.match(own, wanted) >= np.arange(self.rows)
        if not early.any():
            return order
        kept_order = np.arange(self.rows) if order is None else order
        lines = np.concatenate(self.lines)
        files = [name for name, rows in self.files for _ in range(rows)]
        for index in np.sort(kept_order[early]):
            found = Fault(
                files[index],
                int(lines[index]),
                "",
                "",
                "its stated parent does not arrive before it",
                SKIP_REMEDY,
                "parent_not_earlier",
            )
            if self.context.options.on_bad_row == "strict":
                raise BadRowError(found)
            self.context.ledger.drop(found.rule)
            rejects.add(found)
        self.rows -= int(early.sum())
        self.context.ledger.kept -= int(early.sum())
        return kept_order[~early]

    def _times(self, values: dict[str, Any], times: npt.NDArray[np.int64] | None, origin: Origin) -> None:
        first = origin.first_ns - (self.base_ns or 0) if self.rows else 0
        if origin.kind == "none" or times is None:
            values["arrival_us"] = np.zeros(self.rows, np.int64)
        else:
            values["arrival_us"] = ns_to_us(times - first)
        ends = values.pop("completed_ns", None)
        if ends is not None:
            null = ends == schema.NULL_INT64
            values["completed_us"] = np.where(null, ends, ns_to_us(np.where(null, 0, ends) - first))

    def _sessions(self, values: dict[str, Any]) -> list[str]:
        own = values.pop("own_key", None)
        wanted = values.pop("parent_key", None)
        keys = values.pop("session_key", None)
        stated = own is not None and wanted is not None
        if stated:
            resolve.from_parents(values, own, wanted, values["source_row"], self.context.ledger)
        if keys is not None:
            return resolve.from_sessions(values, keys, parents=stated)
        return []

    def _columns(self, values: dict[str, Any], order: npt.NDArray[np.int64] | None) -> Columns:
        source_id = values.pop("source_id", None)
        categories = {name: list(table) for name, table in self.texts.items()}
        lengths = np.concatenate([np.zeros(0, np.int32), *self.lengths])
        if (lengths < 0).all():  # no row states blocks, or there are no block columns at all
            return Columns(self.rows, values, categories, source_id)
        flat = self.blocks.values()
        offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0), dtype=np.int64)])
        if order is not None:
            flat, offsets = gather_blocks(flat, offsets, order)
            lengths = lengths[order]
        return Columns(self.rows, values, categories, source_id, offsets, flat, lengths < 0)


def _orphans(wanted: Any, parent: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Rows that state a parent which is not in the trace: bool[n]."""
    return np.asarray(~_is_null("parent_key", wanted) & (parent == schema.NULL_INT64))


def _is_null(name: str, part: Any) -> npt.NDArray[np.bool_]:
    """Which values of a piece of a column are null: bool[n]."""
    if not isinstance(part, np.ndarray):
        return np.asarray(part.is_null().to_numpy(zero_copy_only=False))
    if part.dtype.kind == "f":
        return np.isnan(part)
    null = schema.BY_NAME[name].null if name in schema.BY_NAME else schema.NULL_INT64
    return np.asarray(part == null)


def _joined(parts: list[Any], order: npt.NDArray[np.int64] | None) -> Any:
    if parts and isinstance(parts[0], np.ndarray):
        joined = np.concatenate(parts)
        return joined if order is None else joined[order]
    chunked = pa.chunked_array(parts, pa.string())
    return chunked.combine_chunks() if order is None else chunked.take(pa.array(order)).combine_chunks()


@kernel
def gather_blocks(
    values: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Some or all block lists, in another order: new values, new offsets.

    values   uint64[n], not modified
    offsets  int64[rows + 1]
    order    int64[kept], row `order[i]` becomes row i
    """
    total = 0
    for i in range(len(order)):
        total += offsets[order[i] + 1] - offsets[order[i]]
    out = np.empty(total, np.uint64)
    bounds = np.zeros(len(order) + 1, np.int64)
    at = 0
    for i in range(len(order)):
        for j in range(offsets[order[i]], offsets[order[i] + 1]):
            out[at] = values[j]
            at += 1
        bounds[i + 1] = at
    return out, bounds
