"""Commands that replay a trace on caches: cache, reproduce."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from servescope.cli.options import Json, Reading, Traces, with_options, with_reading
from servescope.cli.show import progress_bars
from servescope.cli.show_cache import show_cache
from servescope.cli.sweep_options import Sweep, request_options, running_options, sweep_options

Out = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for tables, figures and a page.", show_default=False
    ),
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave out the SVG and PDF files.")]


@with_reading
@with_options("running", running_options)
@with_options("requests", request_options)
@with_options("sweep", sweep_options)
def cache(
    traces: Traces,
    *,
    unit: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What is cached: session or block [block where there are any]."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="STUDY", help="Policies, capacities and models of a study (chutes)."),
    ] = None,
    out: Out = None,
    no_figures: NoFigures = False,
    sweep: Sweep,
    requests: Sweep,
    running: Sweep,
    reading: Reading,
    json: Json = False,
) -> None:
    """Replay a trace on caches of many policies and sizes.

    Prints hit ratios by capacity; an = marks those that tie with lru.

    Example: servescope cache trace.parquet --policy fifo,lru,s3fifo,bound --capacity 1%,10% -o cache
    """
    from servescope import api

    with progress_bars() as bar:
        trace = partial(api.read, *traces, progress=bar("reading"), **reading)
        chosen = {**sweep, **requests, **running, "progress": bar("replaying")}
        result = api.simulate_cache(
            trace, out=out, figures=not no_figures, unit=unit, preset=preset, **chosen
        )
    show_cache(result, out, json=json)


@with_reading
@with_options("running", running_options)
@with_options("requests", request_options)
@with_options("sweep", sweep_options)
def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Whose sweep: chutes.", show_default=False)],
    traces: Traces,
    *,
    out: Out = None,
    no_figures: NoFigures = False,
    sweep: Sweep,
    requests: Sweep,
    running: Sweep,
    reading: Reading,
    json: Json = False,
) -> None:
    """Run a study's sweep of caches and set its published rows beside it.

    Example: servescope reproduce chutes chutes.parquet -o reproduced
    """
    from servescope import api

    with progress_bars() as bar:
        trace = partial(api.read, *traces, progress=bar("reading"), **reading)
        chosen = {**sweep, **requests, **running, "progress": bar("replaying")}
        result = api.reproduce(trace, study=study, out=out, figures=not no_figures, **chosen)
    show_cache(result, out, json=json)


COMMANDS = (cache, reproduce)
