"""From a trace to the tables of a sweep: which rows, which policies, which sizes, then the cells."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from servescope.cache.capacity import parse_capacities, resolve
from servescope.cache.choice import Choice, parse_choices
from servescope.cache.option_rules import each_model_once, refuse_foreign
from servescope.cache.options import CREDITS, SHARES, CacheOptions, options_of
from servescope.cache.reproduce import reproduced, workload_models
from servescope.cache.study import settled
from servescope.cache.sweep import Cell, sweep
from servescope.cache.sweep_tables import Swept, cache_table, differences_table
from servescope.cache.units import Unit, unit_of
from servescope.errors import UsageError
from servescope.provenance import result_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.sweep import Progress, Workload
    from servescope.result import Result, Table
    from servescope.trace import Trace

TTL = "ttl"
RUNNING = ("threads", "engine", "address", "progress")  # how a sweep runs


def result_tables(
    trace: Trace,
    options: CacheOptions,
    *,
    threads: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: Progress | None = None,
) -> tuple[list[Table], list[str], CacheOptions]:
    """Tables cache, policy_differences, those of the unit, and curve if asked for; notes; options as settled.

    threads   cells in work at once, None = one a core
    engine    "local" or "ray"; address: of a running Ray cluster
    progress  called with (requests replayed, requests in all)

    Raises UsageError for what the trace cannot give, DataError where no request is left to replay.
    """
    unit = unit_of(trace, options)
    refuse_foreign(unit.name, options)
    options, said = each_model_once(options)
    options, rows, notes = settled(trace, options)
    notes = [*said, *notes]
    credit = (options.credit or CREDITS[0]) if unit.name == "session" else None
    options = replace(options, unit=unit.name, credit=credit)
    if options.sample is not None:
        return *_sampled(unit, trace, options, progress), options
    choices, more = _choices(unit, options)
    notes += more
    for choice in choices:
        unit.prepare(choice)
    running: dict[str, Any] = {
        "threads": threads or os.cpu_count() or 1,
        "engine": engine,
        "address": address,
    }
    workloads, sizes = [], []
    for one in rows:
        made, said = unit.workload(trace, one, options, **running)
        found, more = _sizes(unit, made, trace, options)
        workloads.append(made)
        sizes.append(found)
        notes += [*said, *more]
    sweeps = _run(unit, workloads, sizes, choices, options, progress=progress, **running)
    tables = [cache_table(sweeps), *unit.tables(sweeps)]
    if len(choices) > 1 and options.resamples:
        tables.append(differences_table(sweeps, seed=options.seed, resamples=options.resamples))
    if options.curve or unit.name == "block":  # one pass, and what the page draws its knee from
        made_curve, said = unit.curve(workloads, sizes)
        tables.append(made_curve)
        notes += said
    more_tables, said = unit.beside(trace, workloads, sizes, options)
    tables += more_tables
    notes += said
    return tables, list(dict.fromkeys([*notes, *_filled_notes(sweeps), *_learnt_notes(sweeps)])), options


def _sampled(
    unit: Unit, trace: Trace, options: CacheOptions, progress: Progress | None
) -> tuple[list[Table], list[str]]:
    if unit.sampled is None:
        raise UsageError(
            f"--sample follows a part of the prefix tree, and the unit {unit.name} has none; leave it out."
        )
    return unit.sampled(trace, options, progress)


def _choices(unit: Unit, options: CacheOptions) -> tuple[list[Choice], list[str]]:
    choices, notes = parse_choices(options.policies or unit.usual, unit.policies)
    if options.ttl_s is None:
        return choices, notes
    if not any(choice.name == TTL for choice in choices):
        choices += parse_choices([TTL], unit.policies)[0]
        notes.append("the policy ttl is added, since --ttl is given")
    given = f"ttl_s={options.ttl_s!r}"
    texts = [f"ttl:{given}" if choice.text == TTL else choice.text for choice in choices]
    return parse_choices(texts, unit.policies)[0], notes


def _sizes(unit: Unit, made: Workload, trace: Trace, options: CacheOptions) -> tuple[list[Size], list[str]]:
    token_bytes, notes = options.token_bytes()
    found, more = resolve(
        parse_capacities(options.capacities or SHARES),
        unit=unit.name,  # type: ignore[arg-type]
        whole=made.whole,
        block_tokens=trace.meta.block_tokens,
        bytes_per_token=token_bytes,
    )
    return found, [*notes, *more]


def _run(
    unit: Unit,
    workloads: Sequence[Workload],
    sizes: Sequence[Sequence[Size]],
    choices: Sequence[Choice],
    options: CacheOptions,
    **running: Any,
) -> list[Swept]:
    cells = [
        Cell(place, choice, size)
        for place in range(len(workloads))
        for choice in choices
        for size in sizes[place]
    ]
    counted = iter(list(sweep(workloads, cells, seed=options.seed, **running)))
    return [
        Swept(
            made,
            tuple(choices),
            tuple(own),
            tuple(next(counted) for _ in range(len(choices) * len(own))),
            options.credit or CREDITS[0],
            unit.reference,
        )
        for made, own in zip(workloads, sizes, strict=True)
    ]


def _filled_notes(sweeps: Sequence[Swept]) -> list[str]:
    """Cells whose cache never filled, by policy."""
    notes = []
    for swept in sweeps:
        never = {
            swept.sizes[size].tokens: None
            for size in range(len(swept.sizes))
            for policy in range(len(swept.choices))
            if swept.of(policy, size).filled is False
        }
        if never:
            said = ", ".join(f"{tokens:,}" for tokens in never)
            notes.append(
                f"{swept.workload.name}: the cache never filled with some policy at {said} tokens "
                "(column filled)"
            )
    return notes


def _learnt_notes(sweeps: Sequence[Swept]) -> list[str]:
    """How often policies that learn have trained, over the capacities."""
    notes = []
    for swept in sweeps:
        for policy, choice in enumerate(swept.choices):
            cells = [swept.of(policy, size) for size in range(len(swept.sizes))]
            trained = [int(cell.details["trainings"]) for cell in cells if "trainings" in cell.details]
            if trained:
                notes.append(
                    f"{swept.workload.name}: {choice.text} trained {min(trained)} to {max(trained)} times by "
                    "capacity (table policy_details); without a training it is LRU"
                )
    return notes


def asked(options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `cache_result` from those of the public functions, checked before a trace is read.

    Raises UsageError for what is wrong whatever the trace.
    """
    running = {name: options[name] for name in RUNNING if name in options}
    rest = {name: value for name, value in options.items() if name not in RUNNING}
    return {"options": options_of(rest), **running}


def cache_result(trace: Trace, *, options: CacheOptions, **running: Any) -> Result:
    """The result of the command `cache`; running: threads, engine, address, progress of `result_tables`."""
    tables, notes, done = result_tables(trace, options, **running)
    return result_of("cache", trace, tables, notes=notes, **done.stated())


def reproduce_result(trace: Trace, *, options: CacheOptions, **running: Any) -> Result:
    """The result of the command `reproduce`: the sweep of the preset, and its published rows beside it.

    Raises UsageError where the trace has none of the study's models and none is named.
    """
    study = str(options.preset)
    models = workload_models(trace, options, study)
    options = replace(options, models=tuple(dict.fromkeys(options.models)))
    tables, notes, done = result_tables(trace, options, **running)
    tables = [*reproduced(study, models, tables, str(done.credit)), *tables]
    return result_of("reproduce", trace, tables, notes=notes, **done.stated())
