"""Rebuilding sessions by the published rule: one reading of the trace, then bucket by bucket.

The rule looks at one user and model at a time, so requests are parted by them into buckets, in memory or,
for a large trace, in files of 40 bytes a request, and the buckets are linked in parallel. What a bucket's
kernel remembers is a few requests of each user and model, so memory does not grow with the rows.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from servescope.engine import local, ray
from servescope.errors import unknown_name
from servescope.kernels.jit import kernel
from servescope.numbering import once
from servescope.sessions.eligible import FIELDS, RULES, TOKENS, Selection
from servescope.sessions.links import SessionOptions, empty_links
from servescope.sessions.rule import (
    CANDIDATES,
    LINK_FIELDS,
    PARENT,
    PREFIX,
    REQUEST,
    SESSION,
    TURN,
    Chains,
    Limits,
    limits,
)
from servescope.sessions.spool import (
    PIECE_ROWS,
    FileSpool,
    FileWriter,
    Gathered,
    MemorySpool,
    Spool,
    buckets_of,
)
from servescope.sessions.summary import Found
from servescope.sessions.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from servescope.sessions.links import Links
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]

IN_MEMORY_ROWS = 1 << 22  # rows of a trace up to which no file is written
ENGINES = ("local", "ray")
TURN_BITS = 32


@dataclass(frozen=True)
class Running:
    """How the work is done; it does not change the result.

    threads   None: one a core; also of a Ray cluster that is started
    engine    name in `ENGINES`
    address   of a running Ray cluster
    folder    where bucket files go, None: the system's place for temporary files
    progress  called with rows done and in all; each is read, and linked
    buckets   None: by the rows of the trace
    files     whether records go to files, None: by the rows of the trace
    """

    threads: int | None = None
    engine: str = "local"
    address: str | None = None
    folder: Path | None = None
    progress: Callable[[int, int], None] | None = None
    buckets: int | None = None
    files: bool | None = None


class InOrder(Protocol):
    """Records, or what was made of them, by part of the trace."""

    def records(self, call: int) -> Ints:
        """Those of a part, in any order: int64[n, FIELDS]."""
        ...


@dataclass(frozen=True)
class Parted:
    """The records of a trace by bucket.

    spool      the records
    counts     for each part of the trace, int64[buckets] records; none in memory
    selection  what was left out
    """

    spool: Spool
    counts: list[Ints]
    selection: Selection

    def in_order(self) -> AbstractContextManager[InOrder]:
        """What stands in the place of the records, part by part of the trace."""
        if isinstance(self.spool, MemorySpool):
            return nullcontext(self.spool)
        assert isinstance(self.spool, FileSpool)
        return Gathered(self.spool, self.counts)


@kernel
def _scatter(
    links: Ints, session: Ints, parent: Ints, turn: npt.NDArray[np.int32], prefix: Ints,
    candidates: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Put links where their requests are in the arrays, modified."""
    for k in range(len(links)):
        row = links[k, REQUEST]
        session[row], parent[row], turn[row] = links[k, SESSION], links[k, PARENT], links[k, TURN]
        prefix[row], candidates[row] = links[k, PREFIX], links[k, CANDIDATES]


def scatter(links: Ints, into: Links) -> None:
    """Put links, int64[n, LINK_FIELDS], into the arrays of `into`, which are modified."""
    _scatter(links, into.session, into.parent, into.turn, into.prefix_tokens, into.candidates)


@dataclass(frozen=True)
class LinkBucket:
    """Links the requests of a bucket; returns what is counted.

    limits  of the rule
    spool   the records
    into    also put the links there, in memory
    keep    also put them in the place of the records
    done    told the rows of each piece
    """

    limits: Limits
    spool: Spool
    into: Links | None = None
    keep: bool = False
    done: Callable[[int], None] | None = None

    def __call__(self, bucket: int) -> Tally:
        """Counts of a bucket's links."""
        chains, tally = Chains(self.limits), Tally()
        buffer = np.empty((PIECE_ROWS, LINK_FIELDS), np.int64)
        for begin, records in self.spool.pieces(bucket):
            links = chains.follow(records, buffer)
            tally.add(links, records[:, TOKENS] >> 32)
            if self.into is not None:
                scatter(links, self.into)
            if self.keep:
                self.spool.keep(bucket, begin, records, _kept(links))
            if self.done is not None:
                self.done(len(records))
        return tally


def part(trace: Trace, options: SessionOptions, running: Running, folder: Path | None) -> Parted:
    """Read the trace once and part its records into buckets; into files where a folder is given.

    Raises UsageError where the trace lacks what the rule needs, or for a model that is not in it.
    """
    selection = Selection(trace, options, running.buckets or buckets_of(trace.rows))
    each = partial(local.map, threads=threads_of(running))
    memory = MemorySpool([[] for _ in range(selection.buckets)])
    read = 0
    with FileWriter(folder or Path(), selection.buckets if folder else 0) as writer:
        append = writer.append if folder else memory.append
        for batch, known in once(trace, selection.columns, each=each):
            append(*selection.records(batch, known))
            read += batch.rows
            if running.progress is not None:
                running.progress(read, 2 * trace.rows)
    if options.model is not None and options.model not in trace.codes("model"):
        raise unknown_name("model", options.model, trace.names("model"))
    return Parted(writer.spool(), writer.counts, selection) if folder else Parted(memory, [], selection)


def threads_of(running: Running) -> int:
    """Threads to use."""
    return running.threads or os.cpu_count() or 1


def link(
    parted: Parted,
    options: SessionOptions,
    running: Running,
    *,
    into: Links | None = None,
    keep: bool = False,
) -> Found:
    """Link all buckets through the engine and add up what is counted."""
    rows = parted.selection.trace.rows
    counter = _Counter(rows, running.progress)
    shape = limits(options.look_back, options.parent_completed, options.max_gap_s, options.unique)
    work = LinkBucket(shape, parted.spool, into, keep, counter.add if running.engine == "local" else None)
    buckets = range(parted.selection.buckets)
    whole = Tally()
    with closing(_map(work, buckets, running)) as tallies:
        for tally in tallies:
            whole.merge(tally)
    counter.end()
    excluded = dict(zip(RULES, parted.selection.excluded.tolist(), strict=True))
    heaviest = int(parted.selection.users.max()) if parted.selection.trace.has("user") else 0
    return Found("paper", whole, whole.lengths(), excluded, heaviest)


@dataclass
class _Counter:
    """Rows linked so far, told from any thread. Changed by `add`."""

    rows: int
    progress: Callable[[int, int], None] | None
    done: int = 0
    lock: Any = field(default_factory=Lock)

    def add(self, rows: int) -> None:
        if self.progress is not None:
            with self.lock:  # told in order, too
                self.done += rows
                self.progress(self.rows + self.done, 2 * self.rows)

    def end(self) -> None:
        if self.progress is not None:
            self.progress(2 * self.rows, 2 * self.rows)


def _map(work: LinkBucket, buckets: Sequence[int], running: Running) -> Generator[Tally, None, None]:
    if running.engine == "ray":
        return ray.map(work, buckets, threads=threads_of(running), address=running.address)
    return local.map(work, buckets, threads=threads_of(running))


@contextmanager
def spool_folder(trace: Trace, running: Running) -> Iterator[Path | None]:
    """A temporary folder for bucket files; None where the records stay in memory."""
    if running.engine not in ENGINES:
        raise unknown_name("engine", running.engine, ENGINES)
    files = trace.rows > IN_MEMORY_ROWS if running.files is None else running.files
    if not files and running.engine == "local":
        yield None
        return
    with TemporaryDirectory(prefix=".servescope-sessions-", dir=running.folder) as folder:
        yield Path(folder)


def paper_links(trace: Trace, options: SessionOptions, running: Running | None = None, **how: Any) -> Links:
    """Links of a trace whose rows fit in memory; see `links.session_links`.

    how  fields of `Running`
    """
    running = replace(running or Running(), **how)
    links = empty_links(trace.rows, "paper")
    near = running.engine == "local"
    with spool_folder(trace, replace(running, files=running.files or False)) as folder:
        parted = part(trace, options, running, folder)
        link(parted, options, running, into=links if near else None, keep=not near)
        if not near:
            _read_back(parted, links)
    return links


def _kept(links: Ints) -> Ints:
    """Links as they stand in a file, int64[n, FIELDS]: the number of candidates beside the turn."""
    kept = links[:, :FIELDS].copy()
    kept[:, TURN] |= links[:, CANDIDATES] << TURN_BITS
    return kept


def from_kept(kept: Ints) -> Ints:
    """Links that `_kept` put away, int64[n, LINK_FIELDS]; what is not kept is 0."""
    links = np.zeros((len(kept), LINK_FIELDS), np.int64)
    links[:, :FIELDS] = kept
    links[:, TURN] &= (1 << TURN_BITS) - 1
    links[:, CANDIDATES] = kept[:, TURN] >> TURN_BITS
    return links


def _read_back(parted: Parted, links: Links) -> None:
    """Fill links from the files of buckets that were linked elsewhere."""
    for bucket in range(parted.selection.buckets):
        for _, kept in parted.spool.pieces(bucket):
            scatter(from_kept(kept), links)
