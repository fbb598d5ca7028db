"""What a ServeGen pool holds, as tables: clients, windows, expected requests, mean lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from servescope.result import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from servescope.formats.servegen import Pool


def pool_facts(pool: Pool) -> dict[str, Table]:
    """Tables `pool` (one row), `pool_clients` (one row a client) and `pool_lengths` (one row a field).

    Expected requests are the sum of rate x window length. Means of lengths weight each window's
    distribution by the requests expected in it; clients without lengths are left out of them.
    """
    expected = pool.rate * pool.window_s
    rows = [_client(pool, index, expected) for index in range(len(pool.clients))]
    clients = {name: [row[name] for row in rows] for name in rows[0]}
    span_s = float(pool.start_s.max() + pool.window_s - pool.start_s.min())
    lengths = _lengths(pool, expected)
    means = {name: mean for name, _, mean in lengths}
    facts = {
        "clients": len(pool.clients),
        "clients_without_lengths": len(pool.without_lengths),
        "windows": len(pool.start_s),
        "active_windows": int((pool.rate > 0).sum()),
        "window_s": pool.window_s,
        "span_s": span_s,
        "expected_requests": float(expected.sum()),
        "mean_rate_per_s": float(expected.sum()) / span_s,
        "input_mean": means.get("input_tokens", means.get("text_tokens")),
        "output_mean": means.get("output_tokens"),
    }
    return {
        "pool": Table(
            "pool",
            pa.table({name: [value] for name, value in facts.items()}),
            "The pool as a whole; expected requests = sum of rate x window length. In a multimodal pool "
            "input_mean is that of the text tokens alone.",
        ),
        "pool_clients": Table(
            "pool_clients", pa.table(clients), "One row a client; cv is the mean over its active windows."
        ),
        "pool_lengths": Table(
            "pool_lengths",
            pa.table(
                {
                    "field": [name for name, _, _ in lengths],
                    "windows": [count for _, count, _ in lengths],
                    "mean": pa.array([mean for _, _, mean in lengths], pa.float64()),
                }
            ),
            "Mean of each length field, windows weighted by the requests expected in them.",
        ),
    }


def _client(pool: Pool, index: int, expected: npt.NDArray[np.float64]) -> dict[str, object]:
    part = slice(pool.offsets[index], pool.offsets[index + 1])
    active = pool.rate[part] > 0
    return {
        "client": pool.clients[index],
        "windows": len(active),
        "active_windows": int(active.sum()),
        "expected_requests": float(expected[part].sum()),
        "peak_rate_per_s": float(pool.rate[part].max()),
        "cv_mean": float(pool.cv[part][active].mean()) if active.any() else None,
        "has_lengths": index in pool.lengths,
    }


def _lengths(pool: Pool, expected: npt.NDArray[np.float64]) -> list[tuple[str, int, float | None]]:
    """Per field: active windows with lengths, and the mean weighted by expected requests."""
    sums: dict[str, list[float]] = {}
    for index, lengths in pool.lengths.items():
        part = range(pool.offsets[index], pool.offsets[index + 1])
        for window in (w for w in part if pool.rate[w] > 0):
            for name, known in (lengths.at(float(pool.start_s[window])) or {}).items():
                totals = sums.setdefault(name, [0.0, 0.0, 0.0])
                totals[0] += 1
                totals[1] += expected[window]
                totals[2] += expected[window] * known.mean
    return [
        (name, int(count), total / weight if weight else None)
        for name, (count, weight, total) in sums.items()
    ]
