"""The first look at Chutes files: bad rows, the order of `started_at`, the runs that the parts read."""

from __future__ import annotations

import math
import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servescope import schema
from servescope.errors import BadRowError, DataError, UsageError
from servescope.formats import chutes_columns as columns_of
from servescope.formats.format import fault
from servescope.formats.time_order import (
    DisorderError,
    Run,
    Survey,
    Ties,
    runs_in_order,
    runs_in_window,
)
from servescope.ledger import Rejects
from servescope.pool import in_order
from servescope.units import NS_PER

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from servescope.errors import Fault
    from servescope.formats.format import Context
    from servescope.formats.parquet import ParquetFile
    from servescope.formats.source import Source

Times = npt.NDArray[np.int64]
READERS = 4  # each holds a decoded group; a disk gives no more to many than to a few
Bad = tuple[str, object, str, str]  # column, value, reason, rule
COPY_COLUMNS = ("source_row", "source_file")  # of a sorted copy: where its rows stood (external_sort.py)


@dataclass
class Layout:
    """The row groups of all files, numbered through, and what is left out of them.

    files    in the order given
    groups   (file, group in it, row number of its first row in the file, from 0)
    names    columns that all files have
    unit     of `started_at` and `completed_at`
    origins  names of the original files where these are sorted copies, else empty
    first    `started_at` of the first request, in `unit`
    dropped  group -> rows of it that are left out, int64
    """

    files: list[ParquetFile]
    groups: list[tuple[int, int, int]]
    names: list[str]
    unit: str
    origins: list[str] = field(default_factory=list)
    first: int = 0
    dropped: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """The kept rows of a group."""
        file, inner, _ = self.groups[group]
        table = self.files[file].read(inner, columns)
        drop = self.dropped.get(group)
        return table if drop is None else table.take(pa.array(np.delete(np.arange(table.num_rows), drop)))

    def lines(self, group: int) -> npt.NDArray[np.int64]:
        """Row numbers in the file, from 1, of the kept rows of a group."""
        file, inner, before = self.groups[group]
        rows = np.arange(before + 1, before + 1 + self.files[file].group_rows(inner))
        drop = self.dropped.get(group)
        return rows if drop is None else np.delete(rows, drop)

    def fingerprint(self, group: int) -> str:
        """Of a row group and what of it is left out; see `ParquetFile.fingerprint`."""
        file, inner, _ = self.groups[group]
        drop = self.dropped.get(group)
        return f"{self.files[file].fingerprint(inner)} {[] if drop is None else drop.tolist()}"

    def source_of(self, group: int) -> Source:
        """The file of a group."""
        return self.files[self.groups[group][0]].source

    def times(self, group: int) -> npt.NDArray[np.int64]:
        """`started_at` of the kept rows of a group, in `unit`."""
        return columns_of.times(self.read(group, ["started_at"]).column("started_at"))

    def faults(self, group: int, bad: dict[int, Bad]) -> Iterator[Fault]:
        """Faults of rows of a group, named by the file and row that the user knows."""
        file, inner, before = self.groups[group]
        stood = self.files[file].read(inner, COPY_COLUMNS).to_pylist() if self.origins else None
        for row in sorted(bad):
            column, value, reason, rule = bad[row]
            shown = "null" if value is None else value
            found = fault(self.files[file].source, before + row + 1, column, shown, reason, rule=rule)
            if stood:
                place = {"file": self.origins[stood[row]["source_file"]], "line": stood[row]["source_row"]}
                found = replace(found, **place)
            yield found


def survey(
    files: list[ParquetFile], context: Context, *, origins: Sequence[str] = ()
) -> tuple[Layout, tuple[Run, ...], Rejects]:
    """Go through the times once; returns where the rows lie, the runs in time order, and the rejects.

    origins  names of the original files, if `files` are sorted copies of them

    Changes the context's ledger: rows read, dropped, sorted, ties. Raises what `open_trace` raises.
    """
    layout = layout_of(files, context, list(origins))
    window = _window(context, layout.unit)
    found, ties, rejects = Survey(), Ties(), Rejects()
    sizes = [file.source.size_bytes for file in files]
    with closing(_looks(layout)) as looks:
        for group, (file, _, _) in enumerate(layout.groups):
            if context.options.progress:
                share = group * sum(sizes) // len(layout.groups)
                context.options.progress(share, sum(sizes))
            moments = _good_times(layout, group, next(looks), context, rejects)
            late = found.add(moments)
            if late >= 0 and found.late > window:
                raise _disorder(layout, group, late, files[file].source.name, found.late, window)
            if found.early == 0:
                ties.add(moments)
    if not sum(found.rows):
        _nothing_kept(files, context, rejects)
    layout.first = found.first_time
    if found.early:
        ties = Ties()
        runs = runs_in_window(found, window, layout.times, ties)
        note_sorted(context, found.early)
    else:
        runs = runs_in_order(found)
    ties.note(context.ledger)
    return layout, runs, rejects


def note_sorted(context: Context, count: int) -> None:
    """Say in the ledger that rows were earlier than the row before them, and were sorted."""
    context.ledger.repair("sorted", count)
    context.ledger.note(
        "sorted",
        "{n} row was earlier than the row before it; sorted",
        "{n} rows were earlier than the row before them; sorted",
        count=count,
    )


def count_early(files: list[ParquetFile], context: Context) -> int:
    """Rows that are earlier than the row before them, in files of any disorder.

    Changes the context's ledger. Raises BadRowError in a strict read.
    """
    layout, found, rejects = layout_of(files, context, []), Survey(), Rejects()
    with closing(_looks(layout)) as looks:
        for group, look in enumerate(looks):
            found.add(_good_times(layout, group, look, context, rejects))
    return found.early


def layout_of(files: list[ParquetFile], context: Context, origins: list[str]) -> Layout:
    """Row groups of the files. Raises UsageError or DataError for files that are not alike or no Chutes."""
    for file in files:
        for name in ("started_at", "chute_id"):
            if name not in file.columns.names:
                raise UsageError(f"{file.source.name}: no column {name}; this is no Chutes trace.")
        columns_of.check_types(file)
    names = [n for n in files[0].columns.names if all(n in file.columns.names for file in files)]
    for file in files:
        extra = [n for n in file.columns.names if n not in names and n in columns_of.ALL_SOURCES]
        if extra:
            raise UsageError(
                f"{file.source.name} has {', '.join(extra)}, another file has not; read them apart."
            )
    kinds = [
        file.columns.field(n).type for file in files for n in ("started_at", "completed_at") if n in names
    ]
    units = {
        columns_of.time_unit(kind, context.options.time_unit, files[0].source.name)
        for kind in kinds
        if not pa.types.is_null(kind)
    }
    if len(units) > 1:
        raise UsageError(f"{files[0].source.name}: times in several units ({', '.join(sorted(units))}).")
    groups = []
    for index, file in enumerate(files):
        before = 0
        for inner in range(file.groups):
            groups.append((index, inner, before))
            before += file.group_rows(inner)
    return Layout(files, groups, names, units.pop() if units else "us", origins)


def _window(context: Context, unit: str) -> int:
    seconds = context.options.reorder_window_s
    if not 0 <= seconds < 1e9:
        raise UsageError(f"--reorder-window must be a number of seconds from 0, not {seconds}.")
    return int(seconds * 1e9) // NS_PER[unit]


def _looks(layout: Layout) -> Generator[tuple[Times, dict[int, Bad]], None, None]:
    """What there is in every group, in order, read ahead on a few threads."""
    threads = min(os.cpu_count() or 1, READERS)
    return in_order(partial(_look, layout), range(len(layout.groups)), threads=threads)


def _look(layout: Layout, group: int) -> tuple[Times, dict[int, Bad]]:
    """Times of a group and what is wrong with its rows. Changes nothing: runs on any thread."""
    index, inner, _ = layout.groups[group]
    file = layout.files[index]
    column = file.read(inner, ["started_at"]).column(0)
    moments = columns_of.times(column)
    bad: dict[int, Bad] = {}
    if len(moments) and (column.null_count or moments.min() == schema.NULL_INT64):
        nulls = np.flatnonzero(moments == schema.NULL_INT64).tolist()
        bad = dict.fromkeys(nulls, ("started_at", None, "missing", "no_start"))
    for name in _doubtful(file, inner, [n for n in columns_of.TOKENS.values() if n in layout.names]):
        counts = file.read(inner, [name]).column(0)
        for row in columns_of.bad_tokens(counts).tolist():
            value = counts[row].as_py()
            bad.setdefault(row, (name, value, "no whole number that fits in 32 bits", "bad_count"))
    return moments, bad


def _good_times(
    layout: Layout, group: int, look: tuple[Times, dict[int, Bad]], context: Context, rejects: Rejects
) -> Times:
    """Times of the rows that stay; the others are counted and remembered, or stop the read."""
    moments, bad = look
    context.ledger.read += len(moments)
    if not bad:
        return moments
    for found in layout.faults(group, bad):
        if context.options.on_bad_row == "strict":
            raise BadRowError(found)
        context.ledger.drop(found.rule)
        rejects.add(found)
    drop = np.array(sorted(bad), np.int64)
    layout.dropped[group] = drop
    return np.delete(moments, drop)


def _doubtful(file: ParquetFile, group: int, names: list[str]) -> list[str]:
    """Columns of token counts that need a look: for good files the footer's statistics settle it."""
    kinds = {name: file.columns.field(name).type for name in names}
    whole = {name: pa.types.is_integer(kind) for name, kind in kinds.items()}
    wide = [name for name in names if whole[name] and kinds[name].bit_width >= 32]
    stated = file.statistics(group, wide) if wide else {}
    rows = file.group_rows(group)
    beyond = [name for name, found in stated.items() if found is None or not _fits(found, rows)]
    return [n for n in names if n in beyond or not (whole[n] or pa.types.is_null(kinds[n]))]


def _fits(stated: pq.Statistics, rows: int) -> bool:
    if stated.has_null_count and stated.null_count == rows:
        return True
    low, high = (stated.min, stated.max) if stated.has_min_max else (math.nan, math.nan)
    return bool(low >= -columns_of.INT32_MAX and high <= columns_of.INT32_MAX)


def _disorder(layout: Layout, group: int, row: int, name: str, late: int, window: int) -> DisorderError:
    line = layout.groups[group][2] + row + 1
    late_s, window_s = _seconds(late, layout), _seconds(window, layout)
    return DisorderError(
        f"{name}: about row {line}: started_at lies {late_s} s before an earlier row, the window is "
        f"{window_s} s. A file is streamed in place only in the order of its times: run convert, which "
        "sorts, or allow a small disorder with --reorder-window S."
    )


def _seconds(span: int, layout: Layout) -> str:
    """A span in the unit of the times, as seconds without needless digits."""
    return f"{span * NS_PER[layout.unit] / 1e9:.6f}".rstrip("0").rstrip(".")


def _nothing_kept(files: list[ParquetFile], context: Context, rejects: Rejects) -> None:
    if not context.ledger.read:
        raise DataError(f"{files[0].source.name}: no rows. Is the file empty?")
    first = rejects.faults[0].message() if rejects.faults else ""
    raise DataError(f"none of {context.ledger.read:,} rows could be kept. The first: {first}")
