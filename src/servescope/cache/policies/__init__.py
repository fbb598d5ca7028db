"""The table of cache policies: which module is which. A new one is one file and one row here.

A module of an object policy has `PARAMETERS` (name -> default), `new(requests, capacity_tokens, seed,
**parameters)`, which gives a state whose first array are the counters of `counts`, `step(state, …)`, one
access, and `run(state, requests, hits, first, last)`, many. A state may go on from where `run` left it.
"""

from __future__ import annotations

OBJECT_POLICIES: dict[str, str] = {
    "fifo": "servescope.cache.policies.fifo",
    "lru": "servescope.cache.policies.lru",
    "lfu": "servescope.cache.policies.lfu",
    "clock": "servescope.cache.policies.clock",
    "sieve": "servescope.cache.policies.sieve",
    "s3fifo": "servescope.cache.policies.s3fifo",
    "arc": "servescope.cache.policies.arc",
    "slru": "servescope.cache.policies.slru",
    "gdsf": "servescope.cache.policies.gdsf",
    "lhd": "servescope.cache.policies.lhd",
    "wtinylfu": "servescope.cache.policies.wtinylfu",
    "random": "servescope.cache.policies.random_eviction",
    "ttl": "servescope.cache.policies.ttl",
    "lrb": "servescope.cache.policies.lrb",
    "belady": "servescope.cache.policies.belady",
}
