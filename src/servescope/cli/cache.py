"""Commands that replay a trace on caches: cache, reproduce."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer

from servescope.cli.options import Json, Reading, Traces, day_window, with_options, with_reading
from servescope.cli.show import progress_bars
from servescope.cli.show_cache import show_cache

Out = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="DIR", help="Folder for tables, figures and a page.", show_default=False
    ),
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave out the SVG and PDF files.")]
Sweep = dict[str, Any]  # keyword arguments of `api.simulate_cache` that both commands share


def sweep_options(
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Policies, NAME or NAME:PARAMETER=VALUE, or one of your own, FILE.py:NAME; repeatable.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(metavar="SIZE,…", help="Capacities: 1%, 4096tokens, 64GiB; repeatable."),
    ] = None,
    credit: Annotated[
        Literal["prefix", "prompt"] | None,
        typer.Option(help="What a hit saves: what its session had cached, or the whole prompt [prefix]."),
    ] = None,
    warmup: Annotated[
        float, typer.Option(metavar="F", help="Part of the requests that only fills the cache.")
    ] = 0.0,
    pin: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Requests hold their blocks while they run; S seconds where the trace states no end.",
        ),
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds after which the policy ttl lets a session go.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of policies that draw, and of the resampling.")] = 10,
    resamples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Draws of users behind every interval.")
    ] = 1_000,
    curve: Annotated[
        bool, typer.Option("--curve", help="Add LRU's whole curve, from reuse distances.")
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Sweep this model apart; repeatable. All together if left out."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM:TO", help="Only requests of these days of the trace clock."),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How sessions are found: stated, paper, blocks [stated, else paper]."
        ),
    ] = None,
    look_back: Annotated[
        int, typer.Option(min=1, metavar="K", help="Requests of a user among which a parent is sought.")
    ] = 10,
    parent_completed: Annotated[
        bool, typer.Option("--parent-completed", help="A parent must have ended before its child starts.")
    ] = False,
    max_gap: Annotated[
        float | None, typer.Option(metavar="S", help="Longest time from a parent's start to its child's.")
    ] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="No link where two candidates fit equally well.")
    ] = False,
    kv_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model whose bytes a token takes (servescope kv).")
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help="Precision of its cache: bf16, fp8, …")
    ] = None,
    bytes_per_token: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Bytes that a token takes, for capacities in bytes."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Replays at once; one a core if left out.")
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="local: threads. ray: tasks of a Ray cluster (extra ray).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Running Ray cluster; one is started if left out."),
    ] = None,
) -> Sweep:
    """Keyword arguments of `api.simulate_cache` from the options of a sweep."""
    return {
        "policy": policy,
        "capacity": capacity,
        "credit": credit,
        "warmup": warmup,
        "pin": pin,
        "ttl_s": ttl,
        "seed": seed,
        "resamples": resamples,
        "curve": curve,
        "model": model,
        "window_days": day_window(window, "--window"),
        "rule": rule,
        "look_back": look_back,
        "parent_completed": parent_completed,
        "max_gap_s": max_gap,
        "unique": unique,
        "kv_model": kv_model,
        "kv_dtype": kv_dtype,
        "bytes_per_token": bytes_per_token,
        "threads": threads,
        "engine": engine,
        "address": address,
    }


@with_reading
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
        sweep["progress"] = bar("replaying")
        result = api.simulate_cache(trace, out=out, figures=not no_figures, unit=unit, preset=preset, **sweep)
    show_cache(result, out, json=json)


@with_reading
@with_options("sweep", sweep_options)
def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Whose sweep: chutes.", show_default=False)],
    traces: Traces,
    *,
    out: Out = None,
    no_figures: NoFigures = False,
    sweep: Sweep,
    reading: Reading,
    json: Json = False,
) -> None:
    """Run a study's sweep of caches and set its published rows beside it.

    Example: servescope reproduce chutes chutes.parquet -o reproduced
    """
    from servescope import api

    with progress_bars() as bar:
        trace = partial(api.read, *traces, progress=bar("reading"), **reading)
        sweep["progress"] = bar("replaying")
        result = api.reproduce(trace, study=study, out=out, figures=not no_figures, **sweep)
    show_cache(result, out, json=json)


COMMANDS = (cache, reproduce)
