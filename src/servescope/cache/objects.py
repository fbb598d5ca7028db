"""A trace as accesses to objects: one object a session, as large as the prompt of its latest request.

An access is as large as its `input_tokens`; a hit saves the whole prompt (credit `prompt`) or only what the
session's cache can hold of it (credit `prefix`: input and output of the request that it continues). The two
are different numbers and are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.cache.clusters import Clusters, clusters_of
from servescope.cache.narrow import narrowed
from servescope.cache.requests import Requests, requests_of
from servescope.cache.simulate import replay
from servescope.cache.warmup import warm_requests
from servescope.errors import DataError
from servescope.kernels.jit import kernel
from servescope.numbering import once
from servescope.sessions.links import SessionOptions, session_links, window_us

if TYPE_CHECKING:
    from servescope.cache.capacity import Size
    from servescope.cache.choice import Choice
    from servescope.cache.simulate import Counted, Tell
    from servescope.category import Category
    from servescope.sessions.links import Links
    from servescope.trace import Trace

    Ints = npt.NDArray[np.int64]

ALL = "*"
# why a request is no access, in the order in which the conditions are put to it
RULES = ("outside_window", "other_model", "no_session", "no_input_tokens", "no_prompt")
LEFT_OUT = {
    "other_model": "of other models",
    "outside_window": "outside the window",
    "no_session": "that belong to no session",
    "no_input_tokens": "whose input tokens are unknown",
    "no_prompt": "without input tokens",
}


class Accesses(NamedTuple):
    """The requests of a trace that access an object, in its order.

    rows     int64[n], their `request_id`
    sizes    int64[n], input tokens, at least 1
    arrival_us, users  int64[n], int32[n] (-1: none)
    objects  int32[n], dense codes of sessions by first access
    prefix   int64[n], tokens of the request that they continue, 0 for none
    left_out rule of `RULES` -> requests left out under it
    """

    rows: Ints
    sizes: Ints
    arrival_us: Ints
    users: npt.NDArray[np.int32]
    objects: npt.NDArray[np.int32]
    prefix: Ints
    left_out: dict[str, int]


@dataclass(frozen=True)
class ObjectWorkload:
    """What the cells of one model, or of all, replay. Picklable; arrays must not be modified.

    name      the model, `ALL` for all requests
    requests  accesses
    prefix    int64[n], tokens that a hit saves where only a kept prefix counts
    credit    name in `options.CREDITS`
    clusters  whose requests they are
    first     requests before it fill the cache and are not counted
    rule      how sessions were found
    left_out  rule -> requests left out under it
    """

    name: str
    requests: Requests
    prefix: Ints
    credit: str
    clusters: Clusters
    first: int
    rule: str
    left_out: dict[str, int]

    @property
    def credits(self) -> Ints:
        """int64[n], tokens that a hit of each access saves."""
        return self.requests.sizes if self.credit == "prompt" else self.prefix

    @property
    def measures(self) -> tuple[str, ...]:
        """What a cell counts, in the order of its totals."""
        return ("request_hits", "hit_tokens")

    @cached_property
    def whole(self) -> int:
        """The working set, of which a capacity in percent is a part: first sizes of all objects."""
        return int(_first_sizes(self.requests.objects, self.requests.sizes, self.requests.known))

    @cached_property
    def bases(self) -> dict[str, Ints]:
        """What hits are divided by, after the warm-up: column -> int64[groups]."""
        ones = np.ones(len(self.requests.sizes), np.int64)
        return {
            "requests": self.clusters.sums(ones, self.first),
            "input_tokens": self.clusters.sums(self.requests.sizes, self.first),
        }

    @property
    def rows(self) -> int:
        """Requests, warm-up included."""
        return len(self.requests.objects)

    def replay(self, choice: Choice, size: Size, *, seed: int, tell: Tell) -> Counted:
        """One cell; see `simulate.replay`."""
        return replay(
            choice,
            self.requests,
            credits=self.credits,
            clusters=self.clusters,
            capacity_tokens=size.tokens,
            seed=seed,
            first=self.first,
            tell=tell,
        )


def object_workload(
    trace: Trace,
    options: SessionOptions = SessionOptions(),  # noqa: B008 (frozen)
    *,
    credit: str = "prefix",
    warmup: float = 0.0,
    seed: int = 10,
    **running: Any,
) -> ObjectWorkload:
    """The accesses of a trace, or of one model and window in it.

    credit   name in `options.CREDITS`
    warmup   part of the accesses that is not counted, 0 to below 1
    running  threads, engine, address of the reconstruction

    Raises UsageError where sessions cannot be found, DataError where no request is left.
    """
    trace, rest, left_out = narrowed(trace, options)
    links = session_links(trace, rest, **running)
    found = accesses(trace, links, rest)
    for why, count in left_out.items():
        found.left_out[why] += count
    if not len(found.rows):
        raise DataError(
            f"no request of the trace can be replayed: {told(found.left_out)}. "
            "`servescope info` shows models and columns, `servescope check` lists doubtful rows."
        )
    requests = requests_of(found.objects, found.sizes, found.arrival_us)
    first = warm_requests(warmup, len(found.rows))
    return ObjectWorkload(
        options.model or ALL,
        requests,
        _prefixes(found, requests, trace),
        credit,
        clusters_of(found.users, found.objects, first=first, seed=seed),
        first,
        links.rule,
        found.left_out,
    )


def told(left_out: dict[str, int]) -> str:
    """Counts of requests left out, in words."""
    return ", ".join(f"{count:,} {LEFT_OUT[rule]} ({rule})" for rule, count in left_out.items() if count)


def accesses(trace: Trace, links: Links, options: SessionOptions) -> Accesses:
    """The requests that take part in a session and have a prompt."""
    wanted = ["arrival_us", "input_tokens", *(name for name in ("user", "model") if trace.has(name))]
    counts = dict.fromkeys(RULES, 0)
    kinds = {"rows": np.int64, "input_tokens": np.int64, "arrival_us": np.int64, "user": np.int32}
    pieces: dict[str, list[Any]] = {name: [np.zeros(0, kind)] for name, kind in kinds.items()}
    for batch, known in once(trace, wanted):
        why = _why_not(
            batch, trace, known.get("model"), links.session[batch.start : batch.start + batch.rows], options
        )
        for place, rule in enumerate(RULES):
            counts[rule] += int((why == place).sum())
        keep = np.flatnonzero(why < 0)
        pieces["rows"].append(keep + batch.start)
        for name in ("input_tokens", "arrival_us"):
            pieces[name].append(batch[name][keep])
        users = batch["user"] if trace.has("user") else np.full(batch.rows, schema.NULL_CODE)
        pieces["user"].append(users[keep])
    rows, sizes, arrival_us = (np.concatenate(pieces[name]).astype(np.int64) for name in list(kinds)[:3])
    users = np.concatenate(pieces["user"]).astype(np.int32)
    objects = _dense(links.session[rows], len(links.session))
    return Accesses(rows, sizes, arrival_us, users, objects, links.prefix_tokens[rows], counts)


def _why_not(
    batch: Any, trace: Trace, models: Category | None, session: Ints, options: SessionOptions
) -> npt.NDArray[np.int8]:
    """int8[rows]: place in `RULES` of the first condition that a row fails, -1 for none."""
    tokens = batch["input_tokens"]
    outside = np.zeros(batch.rows, np.bool_)
    other = outside
    if options.model is not None and models is not None:
        code = int(models.find([options.model])[0])
        other = batch["model"] != code if code >= 0 else ~other
    if options.window_days is not None:
        low, high = window_us(trace, options.window_days)
        outside = (batch["arrival_us"] < low) | (batch["arrival_us"] >= high)
    unknown = tokens == schema.NULL_INT32
    fails = (outside, other, session < 0, unknown, tokens < 1)
    return np.select(fails, range(len(fails)), -1).astype(np.int8)


def _prefixes(found: Accesses, requests: Requests, trace: Trace) -> Ints:
    """int64[n]: tokens of each access that its session's cache can hold, if it is there."""
    if not trace.has("output_tokens"):  # an object trace: what the object held before
        return _previous_or_own(requests.objects, requests.sizes, requests.known)
    return np.minimum(found.prefix, requests.sizes)


@kernel
def _dense(sessions: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int32]:
    """Sessions numbered by first access; each is named by a row of the trace."""
    codes = np.full(rows, -1, np.int32)
    found = np.empty(len(sessions), np.int32)
    known = 0
    for number in range(len(sessions)):
        session = sessions[number]
        if codes[session] < 0:
            codes[session] = known
            known += 1
        found[number] = codes[session]
    return found


@kernel
def _previous_or_own(
    objects: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], known: int
) -> npt.NDArray[np.int64]:
    """min(size of the object before, size now); 0 at the first access."""
    held = np.zeros(known, np.int64)
    found = np.empty(len(objects), np.int64)
    for number in range(len(objects)):
        found[number] = min(held[objects[number]], sizes[number])
        held[objects[number]] = sizes[number]
    return found


@kernel
def _first_sizes(objects: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], known: int) -> int:
    """Sum of every object's first size; codes go by first access."""
    total, seen = 0, 0
    for number in range(len(objects)):
        if objects[number] == seen:
            total += sizes[number]
            seen += 1
    return total
