"""A small trace with prefix blocks, swept: two types, one with sessions and one with a shared template."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from servescope.cache.options import options_of
from servescope.cache.result import cache_result
from servescope.provenance import document_of
from servescope.report.saved import Saved, saved_of
from tests.traces import build

if TYPE_CHECKING:
    from servescope.result import Result
    from servescope.trace import Trace

POLICY, CAPACITY = "fifo,lru,workload_aware,belady_bypass", "40blocks,80blocks,160blocks,1000blocks"


@cache
def trace(*, cached: float | None = None) -> Trace:
    """240 requests of 16-token blocks, one every 30 s: `chat` grows in 20 sessions, `api` shares a template.

    cached  what the source logs as cached, as a part of the prompt; None: nothing is logged
    """
    draw = np.random.default_rng(3)
    grown: dict[int, list[int]] = {}
    fresh = iter(range(1000, 100_000))
    prompts: list[list[int]] = []
    sessions, kinds = [], []
    for request in range(240):
        if request % 3 == 2:
            prompts.append([1, 2, 3, 4, next(fresh)])
            sessions.append(1000 + request)
            kinds.append("api")
            continue
        session = int(draw.integers(20))
        grown[session] = [*grown.get(session, []), next(fresh), next(fresh)]
        prompts.append(list(grown[session]))
        sessions.append(session)
        kinds.append("chat")
    tokens = [16 * len(prompt) for prompt in prompts]
    arrival = [30_000_000 * request for request in range(240)]
    columns: dict[str, Any] = {
        "arrival_us": arrival,
        "completed_us": [at + 20_000_000 for at in arrival],
        "input_tokens": tokens,
        "output_tokens": [16] * 240,
        "request_type": kinds,
        "session_id": sessions,
        "user": [f"u{session % 7}" for session in sessions],
        "block_ids": prompts,
    }
    if cached is not None:
        columns["cached_tokens"] = [int(count * cached) for count in tokens]
    return build(columns)


def swept(*, cached: float | None = None, **options: Any) -> tuple[Result, dict[str, Any]]:
    """The result of the command `cache` and its document."""
    given = {"policy": POLICY, "capacity": CAPACITY, "resamples": 20, **options}
    whole = trace(cached=cached)
    result = cache_result(whole, options=options_of(given), threads=1)
    return result, document_of(result, whole)


@cache
def saved(cached: float | None = None, **options: Any) -> Saved:
    """As figures read it."""
    result, document = swept(cached=cached, **options)
    return saved_of(result.tables, document)
