"""What no policy can pass: a bound on the hits of any cache of this capacity, clairvoyant or not.

Let i be an access, j the next one of its object, and s the size at i. A hit at j needs the object
resident after each of the accesses i, i + 1 … j - 1, and it holds s tokens there, because its size
changes only when it is accessed. So the hit occupies s x (j - i) token-steps. What it grows to at j
is the affair of the next hit, hence a hit that outgrows the cache still counts. An object with
s above the capacity is not resident after i, whether it was refused or outgrew: no hit at j.

After every access the residents of any policy fit into the capacity C. They also hold no more for
later hits than all reuses that span this moment, D tokens. So the hits that count occupy at most the
sum of min(C, D) over all accesses. That is a knapsack; taking the hits of most value per token-step
first, the last one in part, gives at least what any choice of whole hits can give (Dantzig,
"Discrete-variable extremum problems", 1957; for caches PFOO-L of Berger, Beckmann, Harchol-Balter,
"Practical bounds on optimal caching with variable object sizes", SIGMETRICS 2018).

With a warm-up only reuses whose hit counts (j at or after `first`) have a value and are in D. The
argument holds word by word: what a policy keeps for other hits only takes room from these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.cache.requests import NEVER
from servescope.errors import UsageError
from servescope.kernels.jit import kernel

if TYPE_CHECKING:
    from servescope.cache.requests import Requests

Longs = npt.NDArray[np.int64]
FULL = 1 << 62  # sums of token-steps stop here; every budget is below
BIN_SHIFT = 49  # bits of a price left out: bins of sign, exponent and 3 bits of the mantissa, 8 an octave
BINS = 1 << (63 - BIN_SHIFT)


def bound(
    requests: Requests, capacity_tokens: int, credits: npt.NDArray[np.int64], first: int = 0
) -> tuple[float, float]:
    """The most request hits and the most hit tokens that any policy could reach: two separate bounds.

    credits  int64[n], hit tokens if this request hits, at least 0; not modified
    first    requests before this one hold room but do not count

    The numbers are fractional. Memory: 16 bytes a request beside the input; time: linear, plus the
    sorting of the reuses near the last one taken.

    Raises UsageError where capacity x requests is over 2^62.
    """
    number = len(requests.objects)
    capacity = min(int(capacity_tokens), int(requests.sizes.sum()))
    if capacity * number >= FULL:
        raise UsageError(
            f"the bound adds up token-steps; {capacity:,} tokens x {number:,} requests is over 2^62. "
            "Give fewer requests, or sizes in a coarser unit."
        )
    budget = _budget(requests.sizes, requests.nexts, capacity, first)
    credits = np.ascontiguousarray(credits, np.int64)
    hits = _most(requests, np.ones(number, np.int64), capacity, first, budget)
    return hits, _most(requests, credits, capacity, first, budget)


def _most(requests: Requests, values: Longs, capacity: int, first: int, budget: int) -> float:
    """The fractional knapsack: the most value of reuses whose token-steps fit into `budget`.

    A price can be rounded, and then reuses of one price may stand in the wrong order: that is less
    than one unit in the last place of the result, which is rounded up by it.
    """
    arguments = (requests.sizes, requests.nexts, values, capacity, first)
    value, cost, full = _cheap_bins(*arguments, budget)
    if full < 0:
        return float(value)
    inside = _in_bin(*arguments, full)
    order = inside[np.argsort(_prices(requests.sizes, requests.nexts, values, inside), kind="stable")]
    value, left, last = _fill(requests.sizes, requests.nexts, values, order, value, budget - cost)
    if last < 0:
        return float(value)
    part = left * int(values[requests.nexts[last]]) / _cost(requests.sizes, requests.nexts, last)
    return math.nextafter(value + part, math.inf)


@kernel
def _budget(sizes: Longs, nexts: Longs, capacity: int, first: int) -> int:
    """Sum over all accesses of the smaller of capacity and tokens that reuses of value span there."""
    changes = np.zeros(len(sizes), np.int64)
    for number in range(len(sizes)):
        if first <= nexts[number] != NEVER and sizes[number] <= capacity:
            changes[number] += sizes[number]
            changes[nexts[number]] -= sizes[number]
    spanned = budget = 0
    for number in range(len(changes)):
        spanned += int(changes[number])
        budget += min(spanned, capacity)
    return budget


@kernel
def _cost(sizes: Longs, nexts: Longs, number: int) -> int:
    """Token-steps from this access to the next one of its object."""
    return int(sizes[number] * (nexts[number] - number))


@kernel
def _prices(sizes: Longs, nexts: Longs, values: Longs, numbers: Longs) -> npt.NDArray[np.float64]:
    """float64[len(numbers)]: token-steps per unit of value of the reuses after these accesses."""
    prices = np.empty(len(numbers), np.float64)
    for place in range(len(numbers)):
        number = numbers[place]
        prices[place] = _cost(sizes, nexts, number) / values[nexts[number]]
    return prices


@kernel
def _bins(sizes: Longs, nexts: Longs, values: Longs, capacity: int, first: int) -> npt.NDArray[np.int32]:
    """int32[n]: bin of the price of the reuse after each access, cheap ones first; -1: no reuse of value.

    The bits of floats that are not negative are in the order of the floats.
    """
    bins = np.full(len(sizes), -1, np.int32)
    price = np.empty(1, np.float64)
    bits = price.view(np.int64)
    for number in range(len(sizes)):
        coming = nexts[number]
        if first <= coming != NEVER and sizes[number] <= capacity and values[coming] > 0:
            price[0] = _cost(sizes, nexts, number) / values[coming]
            bins[number] = bits[0] >> BIN_SHIFT
    return bins


@kernel
def _cheap_bins(
    sizes: Longs, nexts: Longs, values: Longs, capacity: int, first: int, budget: int
) -> tuple[int, int, int]:
    """Value and token-steps of all bins that fit whole, and the first that does not; -1: all fit."""
    costs = np.zeros(BINS, np.int64)
    worth = np.zeros(BINS, np.int64)
    bins = _bins(sizes, nexts, values, capacity, first)
    for number in range(len(sizes)):
        if bins[number] >= 0:
            cost = _cost(sizes, nexts, number)
            costs[bins[number]] = min(costs[bins[number]] + cost, FULL)
            worth[bins[number]] += values[nexts[number]]
    value = taken = 0
    for place in range(BINS):
        if taken + costs[place] > budget:
            return value, taken, place
        taken += costs[place]
        value += worth[place]
    return value, taken, -1


@kernel
def _in_bin(sizes: Longs, nexts: Longs, values: Longs, capacity: int, first: int, chosen: int) -> Longs:
    """int64[m]: accesses whose reuse is in bin `chosen`."""
    return np.flatnonzero(_bins(sizes, nexts, values, capacity, first) == chosen)


@kernel
def _fill(
    sizes: Longs, nexts: Longs, values: Longs, order: Longs, value: int, left: int
) -> tuple[int, int, int]:
    """Take reuses in order while they fit: value, token-steps left, the first that does not (-1: none)."""
    for number in order:
        cost = _cost(sizes, nexts, number)
        if cost > left:
            return value, left, number
        left -= cost
        value += values[nexts[number]]
    return value, left, -1
