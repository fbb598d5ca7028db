"""Whether a policy keeps the rules of a cache: small random traces, and what must hold on every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.cache.bound import bound
from servescope.cache.choice import BOUND, parse_choice, policy_of
from servescope.cache.policies.counts import PEAK, USED
from servescope.cache.random_cases import LONGEST, MOST_CAPACITY, MOST_OBJECTS, Case, random_cases
from servescope.errors import UsageError
from servescope.ledger import Ledger
from servescope.result import Result, Table

TRACES = 200
DOC = (
    "A rule that every policy must keep, on how many random traces it was tried, on how many it failed, and "
    "the first that failed: its number among the traces of this seed and what happened. Traces hold 1 to "
    f"{LONGEST} requests of 1 to {MOST_OBJECTS} objects whose sizes are equal, fixed, growing or arbitrary, "
    f"at capacities of 1 to {MOST_CAPACITY} tokens."
)


Run = tuple[npt.NDArray[np.uint8], list[int]]


def check_policy(policy: str, *, seed: int = 1, traces: int = TRACES) -> Result:
    """Try a policy on random traces: table `policy_checks` (check, traces, failed, example).

    policy  FILE.py:NAME, or a name of the table of policies, with parameters as in a sweep
    seed    of the traces; the same seed gives the same table
    traces  how many, at least 1

    Raises UsageError for a policy that cannot be loaded.
    """
    if traces < 1:
        raise UsageError(f"{traces} traces check nothing; give at least 1.")
    tried = policy_named(policy)
    failures: dict[str, list[str]] = {name: [] for name in CHECKS}
    for number, case in enumerate(random_cases(seed, traces)):
        for name, found in _failures(tried, case):
            failures[name].append(f"trace {number}, capacity {case.capacity_tokens:,}: {found}")
    columns = {
        "check": list(failures),
        "traces": [traces] * len(failures),
        "failed": [len(found) for found in failures.values()],
        "example": pa.array([found[0] if found else None for found in failures.values()], pa.string()),
    }
    table = Table("policy_checks", pa.table(columns), DOC)
    inputs = {"policy": policy, "seed": seed, "traces": traces}
    return Result("check-policy", inputs, Ledger(), [], {table.name: table})


@dataclass(frozen=True)
class Policy:
    """A policy to check: its module, or what a file gives in its stead, and its parameters."""

    module: Any
    parameters: dict[str, float]

    def new(self, case: Case) -> Any:
        """An empty cache for this case."""
        return self.module.new(case.requests, case.capacity_tokens, case.seed, **self.parameters)


def policy_named(text: str) -> Policy:
    """The policy that a sweep would take for `text`. Raises UsageError."""
    choice = parse_choice(text)
    if choice.name == BOUND:
        raise UsageError(f"{BOUND} is no policy but what none can pass; name a policy, or FILE.py:NAME.")
    found = Policy(policy_of(choice.name), dict(choice.parameters))
    if not choice.own:
        found.new(next(iter(random_cases(1, 1))))  # a parameter out of range, a missing extra: no broken rule
    return found


def _failures(policy: Policy, case: Case) -> Iterator[tuple[str, str]]:
    """The checks that fail on this case, each with what happened."""
    try:
        whole = run_whole(policy, case)
        again = run_whole(policy, case)
        pieces = run_in_pieces(policy, case)
    except UsageError as error:
        yield "runs", str(error)
        return
    for name, check in CHECKS.items():
        if check is not None and (found := check(case, whole, again, pieces)):
            yield name, found


def run_whole(policy: Policy, case: Case) -> Run:
    """Hits of a new cache over the whole trace, and its counters."""
    hits = np.zeros(len(case.requests.objects), np.uint8)
    state = policy.new(case)
    policy.module.run(state, case.requests, hits, 0, len(hits))
    return hits, state[0].tolist()


@dataclass(frozen=True)
class Pieces:
    """The same request by request: hits, counters at the end, and tokens held after each request."""

    hits: npt.NDArray[np.uint8]
    counts: list[int]
    used: list[int]


def run_in_pieces(policy: Policy, case: Case) -> Pieces:
    """A new cache that is stopped after every request."""
    hits = np.zeros(len(case.requests.objects), np.uint8)
    state = policy.new(case)
    used = []
    for number in range(len(hits)):
        policy.module.run(state, case.requests, hits, number, number + 1)
        used.append(int(state[0][USED]))
    return Pieces(hits, state[0].tolist(), used)


def _fits(case: Case, whole: Run, again: Run, pieces: Pieces) -> str:
    for number, used in enumerate(pieces.used):
        if not 0 <= used <= case.capacity_tokens:
            return f"{used:,} tokens are held after request {number}"
    peak = whole[1][PEAK]
    return "" if peak <= case.capacity_tokens else f"the peak is {peak:,} tokens"


def _was_there(case: Case, whole: Run, again: Run, pieces: Pieces) -> str:
    last: dict[int, int] = {}
    asked = zip(case.requests.objects.tolist(), case.requests.sizes.tolist(), whole[0], strict=True)
    for number, (item, size, hit) in enumerate(asked):
        if hit and item not in last:
            return f"request {number} hits object {item}, which was not asked for before"
        if hit and last[item] > case.capacity_tokens:
            return f"request {number} hits object {item}, which was larger than the cache"
        last[item] = size
    return ""


def _repeats(case: Case, whole: Run, again: Run, pieces: Pieces) -> str:
    return _unlike(whole, again, "a second run with the same seed")


def _goes_on(case: Case, whole: Run, again: Run, pieces: Pieces) -> str:
    return _unlike(whole, (pieces.hits, pieces.counts), "a run request by request")


def _unlike(one: Run, other: Run, what: str) -> str:
    different = np.flatnonzero(one[0] != other[0])
    if len(different):
        return f"{what} differs at request {different[0]}"
    return "" if one[1] == other[1] else f"{what} has other counters: {other[1]}, not {one[1]}"


def _bounded(case: Case, whole: Run, again: Run, pieces: Pieces) -> str:
    hits, sizes = whole[0].astype(np.int64), case.requests.sizes
    most_hits, most_tokens = bound(case.requests, case.capacity_tokens, sizes)
    if hits.sum() > most_hits:
        return f"{hits.sum()} hits, and no cache can have more than {most_hits:g}"
    tokens = int((hits * sizes).sum())
    return f"{tokens} hit tokens, and no cache can have more than {most_tokens:g}" * (tokens > most_tokens)


Check = Callable[[Case, Run, Run, Pieces], str]
CHECKS: dict[str, Check | None] = {
    "runs": None,  # no hook fails, and each victim is resident: the driver raises where not
    "fits": _fits,
    "hits_what_was_there": _was_there,
    "repeats": _repeats,
    "goes_on": _goes_on,
    "within_bound": _bounded,
}
