"""A seeded trace with everything in it that the study's tables tell apart, and how to make tables of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from servescope.trace import Origin
from servescope.views import ViewOptions, run_views
from tests.traces import build
from tests.views.slicing import slices_of

if TYPE_CHECKING:
    from servescope.trace import Trace


def study(seed: int, rows: int = 3_000, *, cuts: tuple[int, ...] = (), gap_us: int = 4_000_000) -> Trace:
    """Ties, bursts, nulls, zeros and negative counts; a user heavy enough for picked hours."""
    random = np.random.default_rng(seed)

    def some(values: list[Any], nulls: float = 0.05) -> list[Any]:
        drawn = random.integers(0, len(values), rows)
        return [None if x < nulls else values[i] for i, x in zip(drawn, random.random(rows), strict=True)]

    gaps = random.integers(0, gap_us, rows) * (random.random(rows) < 0.7)
    arrival = np.cumsum(gaps) - int(gaps[0])
    ends = [
        None if x < 0.1 else int(a + x * 4e8)
        for a, x in zip(arrival, random.random(rows) - 0.01, strict=True)
    ]
    columns = {
        "arrival_us": arrival.tolist(),
        "model": some(["m0", "m0", "m0", "m1", "m1", "m2", "m3"]),
        "user": some(["u0", "u0", "u0", "u1", "u2", "u3"]),
        "cohort": some([1, 2, 3, 13], 0.5),
        "instance": some(["i0", "i1", "i2"]),
        "input_tokens": some([0, -3, 1, 41, 1999, 2000, 2001, 8_000, 31_999, 250_000]),
        "output_tokens": some([0, -1, 1, 199, 200, 4_000, 20_000]),
        "cached_tokens": some([0, -2, 1, 600, 1_999, 8_000, 400_000]),
        "ttft_s": some([-0.5, 0.0, 0.01, 0.3, 2.5, 299.99, 300.0, 400.0]),
        "completed_us": ends,
    }
    return build(columns, cuts=cuts, origin=Origin("nominal", 86_399_000_000_000))


def tables(
    trace: Trace, *names: str, slice_rows: int | None = None, threads: int = 1, **options: Any
) -> dict[str, Any]:
    """Name -> result table, merged from slices of at least so many rows, or (None) of one fold."""
    with slices_of(slice_rows) as engine:
        made, _, _ = run_views(trace, list(names), threads=threads, options=ViewOptions(**options), **engine)
    return {table.name: table for table in made}


def as_bytes(made: dict[str, Any]) -> dict[str, bytes]:
    """Name -> the table's bytes."""
    found = {}
    for name, table in made.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.data.schema) as writer:
            writer.write_table(table.data.combine_chunks())
        found[name] = sink.getvalue().to_pybytes()
    return found


def bins(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[tuple[float, float, int]]]:
    """Key columns -> bins, edges to 12 digits."""
    held: dict[tuple[Any, ...], list[tuple[float, float, int]]] = {}
    for row in rows:
        edges = (float(f"{row['bin_low']:.12g}"), float(f"{row['bin_high']:.12g}"))
        held.setdefault(tuple(row[key] for key in keys), []).append((*edges, row["count"]))
    return held
