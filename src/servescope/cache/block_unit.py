"""The unit `block`: prefix blocks, as engines cache them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.cache.active import active_kv
from servescope.cache.advice import reuse_advice
from servescope.cache.answers import with_answers, with_running
from servescope.cache.block_curve import lru_curve
from servescope.cache.block_sample import sampled_curve
from servescope.cache.block_tables import block_tables
from servescope.cache.blocks import ALL, BlockWorkload, block_workload, prepare
from servescope.cache.capacity import HOST_OPTION, parse_capacities, resolve
from servescope.cache.findings import findings
from servescope.cache.given_rates import given_rates
from servescope.cache.model_tables import of_model
from servescope.cache.option_rules import refuse_beside_sample
from servescope.cache.policies import BLOCK_POLICIES
from servescope.cache.tiers import tiers_table
from servescope.cache.trust import trust_of_blocks
from servescope.cache.units import Unit
from servescope.sessions.links import window_us
from servescope.tables import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.options import CacheOptions
    from servescope.cache.prompts import Prompts, PromptTrace
    from servescope.cache.sweep import Progress
    from servescope.result import Table
    from servescope.sessions.links import SessionOptions
    from servescope.trace import Trace

LRU_ORDER = "lru drops the deepest block of what was used longest ago, so that no prefix gets a hole"
USUAL = ("fifo", "lru", "vllm", "s3fifo", "gdsf", "workload_aware", "belady", "belady_bypass")


def workload(
    trace: Trace, rows: SessionOptions, options: CacheOptions, **_running: Any
) -> tuple[Any, list[str]]:
    """The prompts of one model and window, and notes on what is in them."""
    window = None if rows.window_days is None else window_us(trace, rows.window_days)
    made, notes = block_workload(
        trace,
        model=rows.model,
        window_us=window,
        warmup=options.warmup,
        seed=options.seed,
        hold=partial(_hold, options=options),
    )
    if options.reuse_rates is None:
        return made, notes
    rates, said = given_rates(options.reuse_rates, made.categories.names)
    return replace(made, prompts=made.prompts._replace(rates=rates)), [*notes, *said]


def _hold(found: PromptTrace, options: CacheOptions) -> tuple[Prompts, list[str]]:
    if options.pin is None:
        said = "requests let go of their blocks at once; --pin S holds them while they run"
        return with_answers(found, found.prompts), [said]
    prompts, notes = with_running(found, stand_in_s=options.pin or None)
    return with_answers(found, prompts), notes


def curve(workloads: Sequence[BlockWorkload], sizes: Sequence[Sequence[Size]]) -> tuple[Table, list[str]]:
    """Table `curve`: LRU at every capacity, requests holding nothing; and notes."""
    from servescope.result import Table

    made: list[pa.Table] = []
    notes = [LRU_ORDER]
    for one in workloads:
        found = lru_curve(one.prompts, first=one.first)
        rows = found.data.num_rows
        tokens = pa.compute.multiply(found.data["capacity_blocks"], one.prompts.block_tokens)
        made.append(
            found.data.append_column("capacity_tokens", tokens).append_column(
                "model", pa.array([one.name] * rows)
            )
        )
        if bool((one.prompts.ends_us > one.prompts.arrival_us).any()):
            notes.append(f"{one.name}: the curve of LRU is that of requests that hold nothing")
    return Table("curve", pa.concat_tables(made), found.doc), notes


def beside(
    trace: Trace,
    workloads: Sequence[BlockWorkload],
    sizes: Sequence[Sequence[Size]],
    options: CacheOptions,
) -> tuple[list[Table], list[str]]:
    """Where reuse lies; what running requests hold; logged hits; tiers where host sizes are given."""
    tables: list[Table] = []
    notes: list[str] = []
    for one, devices in zip(workloads, sizes, strict=True):
        found, said = findings(one.found, one.categories, one.types)
        tables += [of_model(table, one.name) for table in (reuse_advice(one.found, one.types), *found)]
        notes += said
        beside_log = trust_of_blocks(trace, one, devices[0] if len(devices) == 1 else None)
        if beside_log is not None:
            tables.append(of_model(beside_log.table, one.name))
            notes += beside_log.notes
        code = None if one.name == ALL else trace.codes("model")[one.name]
        memory = max((size.tokens for size in devices), default=None)  # left: of the largest size
        active, said = active_kv(trace, code=code, memory_tokens=memory)
        tables += [of_model(table, one.name) for table in active]
        notes += said
        if not options.host_capacities:
            continue
        token_bytes, said = options.token_bytes()
        hosts, more = resolve(
            parse_capacities(options.host_capacities, HOST_OPTION),
            unit="block",
            whole=one.whole,
            block_tokens=trace.meta.block_tokens,
            bytes_per_token=token_bytes,
        )
        tables.append(tiers_table(one.prompts, devices, hosts, first=one.first, model=one.name))
        notes += [*said, *more]
    return joined(tables), notes


def sampled(trace: Trace, options: CacheOptions, progress: Progress | None) -> tuple[list[Table], list[str]]:
    """LRU's curve from a part of the prefix tree; nothing else is run."""
    notes = refuse_beside_sample(options)
    (made, *about), said = sampled_curve(trace, options.sample or 1.0, seed=options.seed, progress=progress)
    token_bytes, of_bytes = options.token_bytes()
    if token_bytes is not None:
        sizes = [round(tokens * token_bytes) for tokens in made.data["capacity_tokens"].to_pylist()]
        made = replace(made, data=made.data.append_column("capacity_bytes", pa.array(sizes, pa.int64())))
    return [made, *about], [*notes, *said, *of_bytes]


UNIT = Unit(
    "block",
    BLOCK_POLICIES,
    USUAL,
    "belady_bypass",
    prepare,
    workload,
    curve,
    block_tables,
    beside,
    sampled,
)
