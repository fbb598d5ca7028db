"""How far predictions can be trusted: predicted hits beside those that the source logged.

The same requests, by hour, model and instance. Where the two are more than `MOST_APART` apart, advice on
memory is withheld and the likely causes are listed, the likelier ones for the sign of the difference first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.cache.policies import block_lru
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from servescope.cache.blocks import BlockWorkload
    from servescope.cache.capacity import Size
    from servescope.result import Table
    from servescope.sessions.links import Links
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
MOST_APART = 0.05
HOUR_US = 3_600_000_000
COLUMNS = {
    "prediction": pa.string(),
    "dimension": pa.string(),
    "value": pa.string(),
    "requests": pa.int64(),
    "input_tokens": pa.int64(),
    "logged_tokens": pa.int64(),
    "predicted_tokens": pa.int64(),
    "logged_ratio": pa.float64(),
    "predicted_ratio": pa.float64(),
    "difference": pa.float64(),
}
DOC = (
    "Cached tokens as the source logged them beside predicted ones, of the requests whose logged and input "
    "tokens are known: all together (*), by hour of the trace's clock, by model, by instance. Ratios are of "
    "the input tokens; difference = predicted - logged. engine: whole blocks only, never the last token."
)
TOO_HIGH = (
    "the capacity is smaller than assumed",
    "requests go to several replicas, each with a cache of its own",
    "running requests take memory that is assumed to be free for reuse",
    "prefixes expire, or do not cross a border that the trace does not show (tenant, adapter, salt, restart)",
    "the engine's blocks are larger than those of the trace",
    "the source logs cached tokens for a part of the requests, or of the tiers",
)
TOO_LOW = (
    "the capacity is larger than assumed, or a lower tier (host, disk) serves hits",
    "blocks of answers are cached and found by follow-ups",
    "requests outside the trace, or before its start, filled the cache",
    "cached prefixes cross borders that the trace takes as closed",
    "the engine's blocks are smaller than those of the trace, or a template is counted in",
)


class Logged(NamedTuple):
    """Requests with what the source logged; int64[n] each, negative where it is not known.

    clock_us       arrival on the trace's clock
    input_tokens, logged_tokens
    groups         dimension -> codes (negative for none) and their texts
    """

    clock_us: Ints
    input_tokens: Ints
    logged_tokens: Ints
    groups: dict[str, tuple[npt.NDArray[Any], Sequence[str]]]


@dataclass(frozen=True)
class Trust:
    """Whether predictions stand beside the log.

    table     `trust`
    notes     sentences for the reader
    withheld  whether they are too far apart for advice
    """

    table: Table
    notes: list[str]
    withheld: bool


def trust(logged: Logged, predictions: Mapping[str, Ints], *, judged: str) -> Trust | None:
    """Compare; None where no request has both its logged and its input tokens.

    predictions  name -> int64[n], predicted cached tokens
    judged       the prediction that decides whether advice is withheld
    """
    used = (logged.logged_tokens >= 0) & (logged.input_tokens > 0)
    if not used.any():
        return None
    rows = [row for name, predicted in predictions.items() for row in _rows(logged, used, name, predicted)]
    table = stacked("trust", COLUMNS, rows, DOC)
    apart = next(row[-1] for row in rows if row[0] == judged)
    notes = []
    if missing := int((~used).sum()):
        notes.append(
            f"{missing:,} of {len(used):,} requests log no cached or no input tokens and are not compared"
        )
    withheld = abs(apart) > MOST_APART
    if withheld:
        causes = "; ".join(TOO_HIGH if apart > 0 else TOO_LOW)
        notes.append(
            f"the prediction ({judged}) is {abs(apart):.3f} {'above' if apart > 0 else 'below'} the logged "
            f"token hit ratio, more than {MOST_APART}: advice is withheld. Likely causes: {causes}"
        )
    return Trust(table, notes, withheld)


def _rows(logged: Logged, used: npt.NDArray[np.bool_], name: str, predicted: Ints) -> Iterator[list[Any]]:
    hours = logged.clock_us[used] // HOUR_US
    low = int(hours.min())
    texts = [str(low + at) for at in range(int(hours.max()) - low + 1)]
    dimensions: dict[str, tuple[Any, Sequence[str]]] = {
        "all": (np.zeros(len(hours), np.int64), ["*"]),
        "hour": (hours - low, texts),
    }
    for dimension, (codes, names) in logged.groups.items():
        dimensions[dimension] = (np.where(codes[used] < 0, len(names), codes[used]), [*names, "unknown"])
    measures = [logged.input_tokens[used], logged.logged_tokens[used], predicted[used]]
    for dimension, (codes, names) in dimensions.items():
        counts = np.bincount(codes, minlength=len(names))
        sums = [np.bincount(codes, weights=tokens, minlength=len(names)) for tokens in measures]
        for code in np.flatnonzero(counts).tolist():
            tokens, found, guessed = (int(column[code]) for column in sums)  # exact below 2^53
            was, would_be = ratio(found, tokens), ratio(guessed, tokens)
            apart = (guessed - found) / tokens
            yield [
                name, dimension, names[code], int(counts[code]), tokens, found, guessed, was, would_be, apart
            ]  # fmt: skip


def trust_of_blocks(trace: Trace, made: BlockWorkload, size: Size | None = None) -> Trust | None:
    """Compare what caches of prefix blocks predict, unlimited and LRU of `size`, raw and as engines count.

    The judged prediction is the last one: engine-faithful, LRU where a size is given. None where the source
    logs no cached tokens. Requests of the warm-up are left out.
    """
    if "cached_tokens" not in made.found.columns:
        return None
    columns, rest = made.found.columns, slice(made.first, None)
    tokens, block_tokens = made.tokens, made.prompts.block_tokens
    leading = {"unlimited": made.ceiling}
    if size is not None and size.blocks is not None:
        leading[f"lru {size.blocks:,} blocks"] = _lru_hits(made, size.blocks)
    predictions: dict[str, Ints] = {}
    for name, hits in leading.items():
        raw = np.minimum(hits.astype(np.int64) * block_tokens, tokens)
        whole = np.minimum(hits, (np.maximum(tokens, 1) - 1) // block_tokens) * block_tokens
        predictions[name], predictions[f"{name}, engine"] = raw[rest], whole[rest]
    stated = columns.get("input_tokens", tokens).astype(np.int64)
    logged = Logged(
        columns["arrival_us"][rest].astype(np.int64) + trace.meta.origin.clock_us,
        stated[rest],
        columns["cached_tokens"][rest].astype(np.int64),
        _groups(trace, made.found.requests[rest]),
    )
    return trust(logged, predictions, judged=list(predictions)[-1])


def trust_of_sessions(trace: Trace, links: Links) -> Trust | None:
    """Compare the prefix tokens of rebuilt sessions, as if every earlier turn were still cached.

    A request is predicted min(parent's input + output, its input) cached tokens, 0 on a first turn. Rows
    that take no part in the rebuilding are left out. None where the source logs no cached tokens.
    """
    if not (trace.has("cached_tokens") and trace.has("input_tokens")):
        return None
    held = ("arrival_us", "input_tokens", "cached_tokens")
    pieces: dict[str, list[Any]] = {name: [] for name in held}
    for batch in trace.batches(list(held)):
        for name in held:
            pieces[name].append(batch[name].astype(np.int64))
    taking = np.flatnonzero(links.session >= 0)
    arrival, inputs, cached = (np.concatenate(pieces[name])[taking] for name in held)
    groups = _groups(trace, taking)
    logged = Logged(arrival + trace.meta.origin.clock_us, inputs, cached, groups)
    said = "prefixes of rebuilt sessions, unlimited"
    predicted = np.minimum(links.prefix_tokens[taking], np.maximum(inputs, 0))
    return trust(logged, {said: predicted}, judged=said)


def _lru_hits(made: BlockWorkload, blocks: int) -> npt.NDArray[np.int32]:
    """int32[n]: leading blocks found by LRU."""
    hits = np.zeros(made.rows, np.int32)
    state = block_lru.new(made.prompts, blocks, 0)
    block_lru.run(state, made.prompts, hits, 0, made.rows)
    return hits


def _groups(trace: Trace, requests: Ints) -> dict[str, tuple[npt.NDArray[Any], Sequence[str]]]:
    """Models and instances of these requests, where the trace has them."""
    names = [name for name in ("model", "instance") if trace.has(name)]
    if not names:
        return {}
    pieces: dict[str, list[Any]] = {name: [] for name in names}
    for batch in trace.batches(["arrival_us", *names]):
        for name in names:
            pieces[name].append(batch[name])
    return {name: (np.concatenate(pieces[name])[requests], trace.names(name)) for name in names}
