"""The table of cache policies: which module is which. A new one is one file and one row here.

A module of an object policy has `PARAMETERS` (name -> default), `new(requests, capacity_tokens, seed,
**parameters)`, which gives a state whose first array are the counters of `counts`, `step(state, …)`, one
access, and `run(state, requests, hits, first, last)`, many. A state may go on from where `run` left it.
Those of block policies are alike, with `prompts` and `capacity_blocks` in place of requests and tokens; hits
are then the leading blocks of each prompt that were cached.
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

BLOCK_POLICIES: dict[str, str] = {
    "lru": "servescope.cache.policies.block_lru",
    "fifo": "servescope.cache.policies.block_fifo",
    "lfu": "servescope.cache.policies.block_lfu",
    "gdsf": "servescope.cache.policies.block_gdsf",
    "vllm": "servescope.cache.policies.vllm",
    "sglang_lru": "servescope.cache.policies.sglang",
    "sglang_lfu": "servescope.cache.policies.sglang",
    "sglang_fifo": "servescope.cache.policies.sglang",
    "sglang_slru": "servescope.cache.policies.sglang",
    "sglang_mru": "servescope.cache.policies.sglang",
    "sglang_filo": "servescope.cache.policies.sglang",
    "ttl": "servescope.cache.policies.block_ttl",
    "sieve": "servescope.cache.policies.block_sieve",
    "s3fifo": "servescope.cache.policies.block_s3fifo",
    "tail_lru": "servescope.cache.policies.tail_lru",
    "lmcache": "servescope.cache.policies.lmcache",
    "workload_aware": "servescope.cache.policies.workload",
    "belady": "servescope.cache.policies.block_belady",
    "belady_bypass": "servescope.cache.policies.block_belady",
}

# what a name fixes of its module's `new`
FIXED: dict[str, dict[str, str | bool]] = {
    "sglang_lru": {"key": "lru"},
    "sglang_lfu": {"key": "lfu"},
    "sglang_fifo": {"key": "fifo"},
    "sglang_slru": {"key": "slru"},
    "sglang_mru": {"key": "mru"},
    "sglang_filo": {"key": "filo"},
    "belady_bypass": {"bypass": True},
}
