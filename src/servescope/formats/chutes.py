"""The Chutes year: one row an invocation, Parquet, streamed in place without a copy.

Units: `started_at`, `completed_at` timestamps (microseconds) on a nominal clock that begins at
1970-01-01; `ttft` seconds; `it`, `ot`, `ct` tokens, kept as they stand (zeros, negatives, nulls).
Source: "A Year in LLM Serving" (arXiv 2608.13573), artifact HarvardMadSys/chutes_workload.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.formats import chutes_columns as columns_of
from servescope.formats.chutes_prologue import COPY_COLUMNS, Layout, survey
from servescope.formats.format import Format
from servescope.formats.parquet import broken, open_parquet
from servescope.formats.side_tables import read_cohorts, read_model_names
from servescope.formats.time_order import Run, picked
from servescope.trace import Origin, Trace, TraceMeta
from servescope.units import NS_PER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from servescope.category import Category
    from servescope.formats.format import Context, Sample
    from servescope.formats.parquet import ParquetFile
    from servescope.formats.source import Source
    from servescope.trace import Column, SourceFact

KEYS = {"chute_id", "started_at", "it", "ot"}
ALWAYS = ("request_id", "arrival_us", "source_row")


@dataclass(frozen=True)
class ChutesPart:
    """A run of rows, read from its row groups.

    layout  the files, their row groups and what is left out
    run     which rows
    start   `request_id` of the first
    sides   model names and cohorts
    """

    layout: Layout
    run: Run
    start: int
    sides: columns_of.SideTables

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.run.rows

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        wanted = [name for name in schema.NAMES if name in set(columns)]
        table, order = self._read(wanted)
        made: dict[str, Any] = {}
        try:
            arrays = [self._column(name, table, order, made) for name in wanted]
        except pa.ArrowInvalid as error:  # a value beyond the bounds that the footer states
            raise broken(self.layout.source_of(self.run.first), error) from error
        return pa.table(arrays, schema=schema.arrow_schema(wanted))

    def flat(self, columns: Sequence[str]) -> dict[str, Column]:
        """See `trace.FlatPart.flat`."""
        wanted = [name for name in schema.NAMES if name in set(columns)]
        table, order = self._read(wanted)
        made: dict[str, Any] = {}
        found: dict[str, Column] = {}
        try:
            for name in wanted:
                array = self._array(name, table)
                if array is None:
                    array = pa.chunked_array([self._column(name, table, order, made)])
                found[name] = array
        except pa.ArrowInvalid as error:
            raise broken(self.layout.source_of(self.run.first), error) from error
        return found

    @property
    def by_code(self) -> dict[str, tuple[str, Callable[[Category], npt.NDArray[np.int32]]]]:
        """See `trace.CodedPart`: cohorts are looked up once a user, not once a part."""
        return {"cohort": ("user", self.sides.cohorts.by_code)} if self.sides.cohorts else {}

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`: of the run, its row groups, and the side tables."""
        texts = [self.layout.fingerprint(group) for group in self._groups]
        facts = (self.run.rows, self.run.ordered, self.run.low, self.run.high, self.layout.first)
        return hashlib.sha256(repr((texts, facts, self.sides.fingerprint)).encode()).hexdigest()

    def _read(self, wanted: list[str]) -> tuple[pa.Table, npt.NDArray[np.int64] | None]:
        """The rows with the source's columns, and where they stood in their groups, None: in this order."""
        names = columns_of.sources_of(wanted, self.layout.names)
        if "arrival_us" in wanted or not self.run.ordered:
            names.append("started_at")
        if "source_row" in wanted and "source_row" in self.layout.names:
            names.append("source_row")
        pieces = [self.layout.read(group, names) for group in self._groups]
        table = pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)
        if self.run.ordered:
            return table, None
        order = picked(columns_of.times(table.column("started_at")), self.run)
        return table.take(pa.array(order)), order

    @property
    def _groups(self) -> range:
        return range(self.run.first, self.run.last + 1)

    def _array(self, name: str, table: pa.Table) -> npt.NDArray[np.generic] | None:
        """A canonical column without an Arrow array in between, None where there is no such way."""
        column = _stated(name, table)
        if column is None:
            return None
        if name in ("arrival_us", "completed_us"):
            return columns_of.moments(column, self.layout.first, self.layout.unit)
        if name in columns_of.TOKENS:
            return columns_of.token_counts(column)
        return columns_of.seconds(column) if name == "ttft_s" else None

    def _column(
        self, name: str, table: pa.Table, order: npt.NDArray[np.int64] | None, made: dict[str, Any]
    ) -> pa.Array:
        """One canonical column; `made` holds what several columns share, and is changed."""
        kind = schema.BY_NAME[name].arrow
        if name == "request_id":
            return pa.array(np.arange(self.start, self.start + self.rows))
        if name == "source_row":
            return self._source_rows(table, order)
        if name in made:
            return made[name]
        column = _stated(name, table)
        if column is None:
            return pa.nulls(self.rows, kind)
        if name in ("arrival_us", "completed_us"):
            return columns_of.since(column, self.layout.first, self.layout.unit)
        if name in ("user", "cohort"):
            return self._user(name, table, made)
        if name in ("model", "cache_scope"):
            made["model"] = made["cache_scope"] = columns_of.texts(column, self.sides.names)
            return made["model"]
        if name in schema.CATEGORIES:
            return columns_of.texts(column)
        if name in columns_of.TOKENS:
            return columns_of.tokens(column)
        plain = column.cast(kind)
        return plain.combine_chunks()

    def _source_rows(self, table: pa.Table, order: npt.NDArray[np.int64] | None) -> pa.Array:
        if "source_row" in table.column_names:
            return table.column("source_row").combine_chunks().cast(pa.int64())
        rows = np.concatenate([self.layout.lines(group) for group in self._groups])
        return pa.array(rows if order is None else rows[order])

    def _user(self, name: str, table: pa.Table, made: dict[str, Any]) -> pa.Array:
        users = made["user"] = made.get("user") or columns_of.user_keys(table)
        if name == "cohort" and self.sides.cohorts:
            return columns_of.cohorts(users, self.sides.cohorts)
        return users if name == "user" else pa.nulls(self.rows, pa.int16())


def _stated(name: str, table: pa.Table) -> pa.ChunkedArray | None:
    """The source's column that a canonical one is made of first, None where there is none."""
    needs = ("started_at",) if name == "arrival_us" else columns_of.NEEDS.get(name, ())
    return table.column(needs[0]) if needs and needs[0] in table.column_names else None


def detect(sample: Sample) -> str | None:
    """Column names of the study's trace."""
    if sample.kind == "parquet" and set(sample.parquet_columns) >= KEYS:
        return f"Parquet with columns {', '.join(sorted(KEYS))}"
    return None


def open_trace(sources: list[Source], context: Context) -> Trace:
    """The files, in the order given, as one trace that is read in place.

    Raises BadRowError (strict: a null `started_at`, a token count beyond 32 bits), DisorderError where
    rows are late by more than the window, DataError for broken files and unreadable types.
    """
    files = [open_parquet(source) for source in sources]
    return trace_of(files, [file.digest() for file in files], context)


def trace_of(
    files: list[ParquetFile], facts: list[SourceFact], context: Context, *, origins: Sequence[str] = ()
) -> Trace:
    """The trace of opened files. See `open_trace`.

    facts    of the sources, for the metadata
    origins  names of the original files, if `files` are sorted copies of them
    """
    with ThreadPoolExecutor(1) as pool:  # a year's cohorts take as long as its times
        cohorts = pool.submit(_cohorts, context.options.cohorts)
        layout, runs, rejects = survey(files, context, origins=origins)
        context.decide(f"times are {layout.unit} on the nominal clock that begins at 1970-01-01 00:00")
        sides = _sides(context, cohorts)
    starts = np.cumsum([0, *(run.rows for run in runs)]).tolist()
    parts = tuple(ChutesPart(layout, run, start, sides) for run, start in zip(runs, starts[:-1], strict=True))
    context.ledger.kept = starts[-1]
    meta = TraceMeta(
        format="chutes",
        sources=facts,
        decisions=context.decisions,
        origin=Origin("nominal", layout.first * NS_PER[layout.unit]),
        columns=_columns(layout, sides),
        ledger=context.ledger,
    )
    return Trace(meta, parts, rejects)


def _columns(layout: Layout, sides: columns_of.SideTables) -> list[str]:
    """Canonical columns that the files state."""
    have = set(layout.names) - set(COPY_COLUMNS)
    stated = {name for name, needs in columns_of.NEEDS.items() if needs[0] in have}
    if not sides.cohorts:
        stated.discard("cohort")
    return [name for name in schema.NAMES if name in stated or name in ALWAYS]


def _cohorts(path: str | None) -> columns_of.Cohorts | None:
    return columns_of.cohorts_of(*read_cohorts(path)) if path else None


def _sides(context: Context, cohorts: Future[columns_of.Cohorts | None]) -> columns_of.SideTables:
    options = context.options
    context.decide("the user key is the user id and its rotation round, ID@ROUND")
    context.decide("a cached prefix does not cross models")
    models: dict[str, str] = {}
    if options.model_names:
        models, shared = read_model_names(options.model_names)
        context.decide(f"model names from {options.model_names}; ids without a name stay ids")
        if shared:
            context.decide(f"{shared} model names stand for several chute ids; the id is added to each")
    found = cohorts.result()
    if options.cohorts:
        context.decide(f"cohorts from {options.cohorts}")
    return columns_of.SideTables(models, found)


FORMAT = Format("chutes", "Chutes year (Parquet, streamed in place)", detect, open=open_trace)
