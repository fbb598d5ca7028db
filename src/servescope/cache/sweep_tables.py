"""What a sweep found as tables: one row a cell, and the differences between policies with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from servescope.cache.choice import BOUND, Choice
from servescope.cache.compare import Interval, intervals, pairs_of
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.simulate import Counted
    from servescope.cache.sweep import Workload
    from servescope.result import Table

I64, F64, TEXT, FLAG = pa.int64(), pa.float64(), pa.string(), pa.bool_()
AGAINST = "lru"
# ratio -> what is divided by what
RATIOS = {
    "request_hit_ratio": ("request_hits", "requests"),
    "token_hit_ratio": ("hit_tokens", "input_tokens"),
    "block_hit_ratio": ("block_hits", "block_references"),
    "full_block_hit_ratio": ("full_block_hits", "full_block_references"),
    "engine_token_hit_ratio": ("engine_hit_tokens", "input_tokens"),
}
CACHE = {
    "policy": TEXT,
    "capacity_tokens": I64,
    "capacity_blocks": I64,
    "capacity_bytes": I64,
    "requests": I64,
    "request_hits": I64,
    "request_hit_ratio": F64,
    "input_tokens": I64,
    "hit_tokens": I64,
    "token_hit_ratio": F64,
    "block_references": I64,
    "block_hits": I64,
    "block_hit_ratio": F64,
    "full_block_references": I64,
    "full_block_hits": I64,
    "full_block_hit_ratio": F64,
    "engine_hit_tokens": I64,
    "engine_token_hit_ratio": F64,
    "evictions": I64,
    "credit": TEXT,
    "peak_tokens": I64,
    "filled": FLAG,
    "distance_to_bound": F64,
    "request_distance_to_bound": F64,
    "model": TEXT,
    "capacity_share": F64,
    "seconds": F64,
}
CACHE_DOC = (
    "One policy at one capacity over one workload; counts leave the warm-up out. hit_tokens: tokens credited "
    "by `credit` (prompt: the whole input of a hit; prefix: at most input and output of the request that it "
    "continues). distance_to_bound: (hit tokens - those of lru) / (those of the bound - those of lru); "
    "request_distance_to_bound: the same of hits; null without both. With blocks belady_bypass stands for "
    "the bound, and block hits for tokens. full_block: partial last blocks left out; engine: whole blocks "
    "only, and never the last token of a prompt. capacity_share: of the working set. "
    "filled: whether anything had to go, or the capacity was reached. seconds: wall time of the replay alone."
)
DIFFERENCES = {
    "policy_a": TEXT,
    "policy_b": TEXT,
    "capacity_tokens": I64,
    "metric": TEXT,
    "difference": F64,
    "low": F64,
    "high": F64,
    "tie": FLAG,
    "difference_without_heaviest": F64,
    "low_without_heaviest": F64,
    "high_without_heaviest": F64,
    "tie_without_heaviest": FLAG,
    "heaviest_share": F64,
    "model": TEXT,
    "groups": TEXT,
}
DIFFERENCES_DOC = (
    "Ratio of policy_a minus ratio of policy_b. low, high: middle 95% of {resamples:,} bootstrap draws over "
    "users (groups: user, or session where there are no users); tie: 0 lies between them. without_heaviest: "
    "the same with the requests of the user with most of them not counted (they stay in the replay); "
    "heaviest_share: that user's part of what the ratio is divided by. Pairs: each policy with lru, then "
    "neighbours in rank."
)


@dataclass(frozen=True)
class Swept:
    """The finished cells of one workload.

    counted  one a cell, all sizes of the first policy first
    reference  the policy that stands for the best there is
    """

    workload: Workload
    choices: tuple[Choice, ...]
    sizes: tuple[Size, ...]
    counted: tuple[Counted, ...]
    credit: str
    reference: str

    def of(self, policy: int, size: int) -> Counted:
        """The cell of a policy and a size, by their places."""
        return self.counted[policy * len(self.sizes) + size]

    def place(self, text: str) -> int | None:
        """The place of a policy, None where it was not run."""
        texts = [choice.text for choice in self.choices]
        return texts.index(text) if text in texts else None


def cache_table(sweeps: Sequence[Swept]) -> Table:
    """Table `cache`: rows by workload, then policy, then size."""
    rows = [
        _row(swept, policy, size)
        for swept in sweeps
        for policy in range(len(swept.choices))
        for size in range(len(swept.sizes))
    ]
    return stacked("cache", CACHE, [[row.get(name) for name in CACHE] for row in rows], CACHE_DOC)


def _row(swept: Swept, policy: int, size: int) -> dict[str, Any]:
    counted, at = swept.of(policy, size), swept.sizes[size]
    row: dict[str, Any] = {name: int(base.sum()) for name, base in swept.workload.bases.items()}
    totals = counted.totals.sum(axis=1).tolist()
    row |= dict(zip(swept.workload.measures, totals, strict=True))
    for name, (part, whole) in RATIOS.items():
        row[name] = ratio(row.get(part), row.get(whole))
    return row | {
        "policy": swept.choices[policy].text,
        "capacity_tokens": at.tokens,
        "capacity_blocks": at.blocks,
        "capacity_bytes": at.bytes,
        "evictions": counted.evictions,
        "credit": None if "block_hits" in swept.workload.measures else swept.credit,
        "peak_tokens": counted.peak_tokens,
        "filled": counted.filled,
        "distance_to_bound": _distance(swept, policy, size, _judged(swept)),
        "request_distance_to_bound": _distance(swept, policy, size, "request_hits"),
        "model": swept.workload.name,
        "capacity_share": ratio(at.tokens if at.blocks is None else at.blocks, swept.workload.whole),
        "seconds": counted.seconds,
    }


def _judged(swept: Swept) -> str:
    """The measure in which no policy passes the reference."""
    return "block_hits" if "block_hits" in swept.workload.measures else "hit_tokens"


def _distance(swept: Swept, policy: int, size: int, measure: str) -> float | None:
    """How much of the way from LRU to the bound a policy goes; None without both, or where they meet."""
    ends = [swept.place(AGAINST), swept.place(swept.reference)]
    if ends[0] is None or ends[1] is None or measure not in swept.workload.measures:
        return None
    row = swept.workload.measures.index(measure)
    low, high, own = (int(swept.of(p, size).totals[row].sum()) for p in (ends[0], ends[1], policy))
    return ratio(own - low, high - low)


def differences_table(sweeps: Sequence[Swept], *, seed: int, resamples: int) -> Table:
    """Table `policy_differences`: rows by workload, size, metric and pair."""
    rows = [row for swept in sweeps for row in _differences(swept, seed, resamples)]
    doc = DIFFERENCES_DOC.format(resamples=resamples)
    return stacked("policy_differences", DIFFERENCES, rows, doc)


def _differences(swept: Swept, seed: int, resamples: int) -> list[list[Any]]:
    policies = [place for place, choice in enumerate(swept.choices) if choice.name != BOUND]
    names = [swept.choices[place].text for place in policies]
    clusters, found = swept.workload.clusters, {}
    for metric, (part, whole) in RATIOS.items():
        if part not in swept.workload.measures:
            continue
        row = swept.workload.measures.index(part)
        bases = swept.workload.bases[whole]
        # every size at once: the draws are the same for all, and drawing is what costs
        cells = [swept.of(place, size).totals[row] for size in range(len(swept.sizes)) for place in policies]
        hits = np.stack(cells) if cells else np.zeros((0, len(bases)), np.int64)
        pairs = [_pairs(names, hits, bases, size) for size in range(len(swept.sizes))]
        flat = [pair for of_size in pairs for pair in of_size]
        with_all = intervals(hits, bases, flat, seed=seed, resamples=resamples)
        without = intervals(hits, bases, flat, left_out=clusters.heaviest, seed=seed, resamples=resamples)
        share = ratio(int(bases[clusters.heaviest]), int(bases.sum()))
        made = iter(zip(flat, with_all, without, strict=True))
        for size, of_size in enumerate(pairs):
            found[size, metric] = [
                [
                    *(names[place % len(names)] for place in pair), swept.sizes[size].tokens, metric,
                    *_shown(one), *_shown(other), share, swept.workload.name, clusters.kind,
                ]
                for pair, one, other in (next(made) for _ in of_size)
            ]  # fmt: skip
    return [row for key in sorted(found, key=lambda key: key[0]) for row in found[key]]


def _pairs(names: list[str], hits: Any, bases: Any, size: int) -> list[tuple[int, int]]:
    """Pairs of rows of `hits` to compare at one size."""
    first, total = size * len(names), int(bases.sum())
    ratios = [ratio(int(hits[first + place].sum()), total) for place in range(len(names))]
    return [(first + one, first + other) for one, other in pairs_of(names, ratios, AGAINST)]


def _shown(found: Interval) -> tuple[float | None, float | None, float | None, bool | None]:
    return *found, found.tie
