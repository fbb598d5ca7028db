"""Commands that study a trace and write a folder: report, demo, views."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from servescope.cli.options import Address, Engine, Json, Reading, Traces, day_window, with_reading
from servescope.cli.show import progress_bars, show, show_report
from servescope.errors import UsageError

Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the scan; one a core if left out.")]
Windows = Annotated[
    list[float] | None,
    typer.Option("--window-s", metavar="S", help="Length of rate windows in seconds; repeatable [10, 300]."),
]
Highlights = Annotated[
    list[str] | None,
    typer.Option("--highlight", metavar="MODEL", help="Model with series of its own; repeatable."),
]
BalanceModels = Annotated[
    list[str] | None,
    typer.Option(
        "--lb-model", metavar="MODEL", help="Model of the balance tables; repeatable. The top 3 if left out."
    ),
]
BalanceWindow = Annotated[
    str | None,
    typer.Option(
        "--lb-window",
        metavar="FROM:TO",
        help="Window of the balance tables in days of the trace clock [last 59].",
    ),
]
Rows = Annotated[
    bool, typer.Option("--rows", help="Also write the requests behind the balance tables and rasters.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="STUDY", help="Models, windows and ranks of a study (chutes), where none are chosen."
    ),
]
Compare = Annotated[
    str | None,
    typer.Option(metavar="STUDY", help="Set a study's published numbers (chutes) beside those found."),
]
KvModel = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Model whose caches are sized in GiB; `servescope kv` lists them."),
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave out the SVG and PDF files.")]


@with_reading
def report(
    traces: Annotated[
        list[str] | None, typer.Argument(metavar="TRACE", help="Trace files of one format, read as one.")
    ] = None,
    *,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help="Folder to write.", show_default=False)
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Draw a written report again, without its trace."),
    ] = None,
    threads: Threads = None,
    window_s: Windows = None,
    highlight: Highlights = None,
    lb_model: BalanceModels = None,
    lb_window: BalanceWindow = None,
    rows: Rows = False,
    preset: Preset = None,
    compare: Compare = None,
    kv_model: KvModel = None,
    no_figures: NoFigures = False,
    reading: Reading,
    json: Json = False,
) -> None:
    """Say what the traffic of a trace is like.

    Writes one offline page, figures and tables of everything that the columns allow.

    Example: servescope report conversation.jsonl -o report
    """
    from servescope import api

    folder = _folder(traces, out, from_)
    with progress_bars() as bar:
        if from_ is not None:
            result = api.report_from(folder, figures=not no_figures, compare=compare)
        else:
            trace = partial(api.read, *(traces or ()), progress=bar("reading"), **reading)
            result = api.report(
                trace,
                out=folder,
                figures=not no_figures,
                threads=threads,
                rows=rows,
                preset=preset,
                compare=compare,
                kv_model=kv_model,
                progress=bar("scanning"),
                **_choices(window_s, highlight, lb_model, lb_window),
            )
    show_report(result, folder, json=json)


def _choices(
    window_s: list[float] | None,
    highlight: list[str] | None,
    lb_model: list[str] | None,
    lb_window: str | None,
) -> dict[str, Any]:
    """What shapes the tables, as keyword arguments of `api.views` and `api.report`."""
    return {
        "windows_s": window_s or (10, 300),
        "highlights": highlight or (),
        "lb_models": lb_model or (),
        "lb_window_days": day_window(lb_window, "--lb-window"),
    }


def _folder(traces: list[str] | None, out: str | None, from_: str | None) -> str:
    """The report's folder. Raises UsageError unless it is either traces with -o, or --from alone."""
    if from_ is not None:
        if traces or out is not None:
            raise UsageError("--from draws a written report again in its folder; give no TRACE and no -o.")
        return from_
    if not traces:
        raise UsageError("no trace given; name at least one file, or - for standard input.")
    if out is None:
        raise UsageError("no folder given; name the one to write with -o DIR.")
    return out


def demo(
    *,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Folder to write.")
    ] = "servescope-demo",
    no_figures: NoFigures = False,
    json: Json = False,
) -> None:
    """Make the report of the built-in sample.

    No file is needed; the sample is a small made-up trace that ships with servescope.

    Example: servescope demo
    """
    from servescope import api

    show_report(api.demo(out=out, figures=not no_figures), out, json=json)


@with_reading
def views(
    traces: Traces,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for tables and figures.", show_default=False),
    ] = None,
    view: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Table to make; repeatable. All if left out.")
    ] = None,
    threads: Threads = None,
    window_s: Windows = None,
    highlight: Highlights = None,
    lb_model: BalanceModels = None,
    lb_window: BalanceWindow = None,
    rows: Rows = False,
    no_figures: NoFigures = False,
    preset: Preset = None,
    compare: Compare = None,
    engine: Engine = "local",
    address: Address = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from DIR/state: scan only new rows, or what was left to do.")
    ] = False,
    reading: Reading,
    json: Json = False,
) -> None:
    """Make the views of a trace as tables and figures.

    Example: servescope views trace.parquet -o views --view rate --view length_ccdf
    """
    from servescope import api

    with progress_bars() as bar:
        trace = partial(api.read, *traces, progress=bar("reading"), **reading)
        result = api.views(
            trace,
            out=out,
            view=view or (),
            threads=threads,
            rows=rows,
            figures=out is not None and not no_figures,
            preset=preset,
            compare=compare,
            engine=engine,
            address=address,
            resume=resume,
            progress=bar("scanning"),
            **_choices(window_s, highlight, lb_model, lb_window),
        )
    show(result, json=json)


COMMANDS = (report, demo, views)
