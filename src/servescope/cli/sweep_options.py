"""Options that the commands of caches share: what is swept, over which requests, and how it runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from servescope.cli.options import Address, Engine, day_window

Sweep = dict[str, Any]  # keyword arguments of `api.simulate_cache`
Pin = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="S",
        help="Requests hold their blocks while they run; S seconds where the trace states no end.",
    ),
]
HostCapacity = Annotated[
    list[str] | None,
    typer.Option(metavar="SIZE,…", help="Sizes of a host tier behind the device, LRU; repeatable."),
]
ReuseRates = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Rates of workload_aware by category (JSON), in place of fitting."),
]
Sample = Annotated[
    float | None,
    typer.Option(metavar="R", help="Follow this part of the prefix tree, and give LRU's curve alone."),
]


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
    pin: Pin = None,
    host_capacity: HostCapacity = None,
    reuse_rates: ReuseRates = None,
    sample: Sample = None,
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
) -> Sweep:
    """What is swept: keyword arguments of `api.simulate_cache`."""
    return {
        "policy": policy,
        "capacity": capacity,
        "credit": credit,
        "warmup": warmup,
        "pin": pin,
        "host_capacity": host_capacity,
        "reuse_rates": reuse_rates,
        "sample": sample,
        "ttl_s": ttl,
        "seed": seed,
        "resamples": resamples,
        "curve": curve,
    }


def request_options(
    *,
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
) -> Sweep:
    """Which requests take part, and how their sessions are found; keyword arguments too."""
    return {
        "model": model,
        "window_days": day_window(window, "--window"),
        "rule": rule,
        "look_back": look_back,
        "parent_completed": parent_completed,
        "max_gap_s": max_gap,
        "unique": unique,
    }


def running_options(
    *,
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
    engine: Engine = "local",
    address: Address = None,
) -> Sweep:
    """What a token takes, and how the sweep runs; keyword arguments too."""
    return {
        "kv_model": kv_model,
        "kv_dtype": kv_dtype,
        "bytes_per_token": bytes_per_token,
        "threads": threads,
        "engine": engine,
        "address": address,
    }
