"""What a command prints: a result for people or as JSON, and progress while it works."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servescope.result import Result, Table

    Progress = Callable[[int, int | None], None]

CELL_CHARS = 60  # a text cell is cut here in tables for people; --json and Parquet hold all of it
SHOWN_ROWS = 40
SHOWN_REJECTS = 10


@contextmanager
def progress_bars() -> Iterator[Callable[[str], Progress | None]]:
    """Bars on stderr while the block runs, one below the other.

    Yields `bar(what)`, which adds one and returns its callback (done, total). Where stderr is no
    terminal there are no bars, and `bar` returns None. What somebody's policy prints in the block
    goes to stderr too: stdout is for the result.
    """
    if not sys.stderr.isatty():
        with redirect_stdout(sys.stderr):
            yield lambda what: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with redirect_stdout(sys.stderr), progress.Progress(*columns, console=console, transient=True) as bars:

        def bar(what: str) -> Progress:
            task = bars.add_task(what, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield bar


def show(result: Result, *, json: bool, shown_rows: int = SHOWN_ROWS) -> None:
    """Print a result: one JSON document on stdout, or ledger, notes and tables for people.

    shown_rows  rows of a table for people; JSON has all
    """
    if json:
        sys.stdout.buffer.write(result.to_json() + b"\n")
        return
    width = shutil.get_terminal_size().columns
    print_notes(result, width)
    for table in result.tables.values():
        if table.name == "rejects":
            _print_rejects(table, width)
        elif table.data.num_rows:
            _print_table(table, width, shown_rows)


def print_notes(result: Result, width: int) -> None:
    """Print the ledger, how the trace was read, and every note."""
    if "format" in result.inputs:  # a result of a trace; the catalogue of models has none
        print_wrapped(result.ledger.summary(), width)
        print_wrapped(f"read as {result.inputs['format']}: {'; '.join(result.inputs['decisions'])}", width)
    for note in result.notes:
        print_wrapped(f"note: {note}", width)


def show_report(result: Result, folder: str, *, json: bool) -> None:
    """Print a report: its document, or its plain lines; the last line is the path of the page."""
    if json:
        show(result, json=True)
        return
    from servescope.report.saved import read_saved
    from servescope.report.summary import summarise

    width = shutil.get_terminal_size().columns
    for label, text in summarise(read_saved(Path(folder))):
        print_wrapped(f"{label}: {text}", width)
    folder = folder.rstrip("/")
    if "rejects" in result.tables:
        typer.echo(f"Rejected rows: {folder}.rejects.jsonl")
    typer.echo(f"\n{folder}/report.html")


def print_wrapped(text: str, width: int, indent: str = "  ") -> None:
    """Print one line for people, broken where it is longer than `width`."""
    from servescope.report.saved import printable  # a trace's texts must not steer the terminal

    text = printable(text)
    typer.echo(textwrap.fill(text, max(width, 20), subsequent_indent=indent, break_on_hyphens=False))


def _print_rejects(table: Table, width: int) -> None:
    typer.echo("")
    for row in table.data.slice(0, SHOWN_REJECTS).to_pylist():
        what = " ".join(part for part in (row["field"], row["value"]) if part)
        what = f"{what}: " if what else ""
        print_wrapped(f"rejected {row['file']}:{row['line']}: {what}{row['reason']}", width)
    if table.data.num_rows > SHOWN_REJECTS:
        typer.echo(f"… {table.data.num_rows - SHOWN_REJECTS:,} more rejected rows")


def _print_table(table: Table, width: int, shown_rows: int) -> None:
    """Rows side by side where they fit, else one below the other as name and value."""
    typer.echo(f"\n{table.name}")
    names = table.data.column_names
    rows = table.data.slice(0, shown_rows).to_pylist()
    cells = [[_cell(row[name], table.name) for name in names] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(names, *cells, strict=True)]
    if len(rows) > 1 and sum(widths) + 2 * (len(widths) - 1) <= width:
        _print_grid(names, cells, widths)
    else:
        _print_records(names, cells, width)
    if table.data.num_rows > shown_rows:
        typer.echo(f"… {table.data.num_rows - shown_rows:,} more rows; --json or the Parquet file has all")


def _print_grid(names: list[str], cells: list[list[str]], widths: list[int]) -> None:
    for line in (names, *cells):
        first, *rest = (
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        typer.echo("  ".join([first, *rest]).rstrip())


def _print_records(names: list[str], cells: list[list[str]], width: int) -> None:
    label = max(len(name) for name in names) + 2
    for index, row in enumerate(cells):
        if index:
            typer.echo("")
        for name, text in zip(names, row, strict=True):
            print_wrapped(f"{name.ljust(label)}{text}", width, " " * min(label, width // 2))


def _cell(value: Any, table: str) -> str:
    from servescope.report.saved import printable

    if value is None:  # a check that nothing fails has no first row; elsewhere null is not known
        return "–" if table in ("checks", "policy_checks") else "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    text = printable(str(value))
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"
