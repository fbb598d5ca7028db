"""Random cases for the tests of policies, and runs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from servescope.cache.random_cases import Case
    from tests.reference.caches import Asked


def asked(case: Case) -> list[Asked]:
    """Object, tokens and time of every request, as the plain caches take them."""
    requests = case.requests
    columns = (requests.objects, requests.sizes, requests.arrival_us)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def ran(module: Any, case: Case, **parameters: float) -> tuple[list[bool], Any]:
    """Hits of a policy's module on a case, and its state at the end."""
    hits = np.zeros(len(case.requests.objects), np.uint8)
    state = module.new(case.requests, case.capacity_tokens, case.seed, **parameters)
    module.run(state, case.requests, hits, 0, len(hits))
    return hits.astype(bool).tolist(), state
