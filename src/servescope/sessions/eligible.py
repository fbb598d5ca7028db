"""Which requests take part in reconstruction, and what the rule needs of each: one record of 40 bytes.

Source: "A Year in LLM Serving" (arXiv 2608.13573). A condition on a column that the source lacks altogether
counts as true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.errors import UsageError
from servescope.kernels.jit import kernel
from servescope.sessions.links import window_us

if TYPE_CHECKING:
    from servescope.category import Category
    from servescope.sessions.links import SessionOptions
    from servescope.trace import Batch, Trace

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

ENDPOINTS = ("chat", "chat_stream", "completion", "completion_stream")
# why a row takes no part, in the order in which the conditions are put to it
RULES = (
    "other_model", "outside_window", "no_model", "no_user", "no_instance", "no_input_tokens",
    "no_output_tokens", "other_endpoint",
)  # fmt: skip
CONDITIONS = ("model", "user", "instance", "endpoint")
COUNTS = ("input_tokens", "output_tokens")
ROW, START, END, PAIR, TOKENS = range(5)  # columns of a record
FIELDS = 5
ENDPOINT_BITS = 2
ANY = -2  # a model code: requests of every model
NOT_YET = -3  # of a model that has not appeared so far
FOREVER = 2**62


@kernel
def _why_not(
    model: int, user: int, instance: int, tokens_in: int, tokens_out: int, endpoint: int, start: int,
    wanted: int, low: int, high: int,
) -> int:  # fmt: skip
    """Index in `RULES` of the first condition that a row fails, -1 where it takes part."""
    if wanted != ANY and model != wanted:
        return 0
    if start < low or start >= high:
        return 1
    if model < 0:
        return 2
    if user < 0:
        return 3
    if instance < 0:
        return 4
    if tokens_in == schema.NULL_INT32:
        return 5
    if tokens_out == schema.NULL_INT32:
        return 6
    return 7 if endpoint < 0 else -1


@kernel
def _bucket(user: int, model: int, buckets: int) -> np.int64:
    mixed = np.uint64(user) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(model) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.int64((mixed >> np.uint64(33)) % np.uint64(buckets))


@kernel
def _select(
    first: int, start: Ints, end: Ints, model: Codes, user: Codes, instance: Codes, endpoint: Codes,
    tokens_in: Codes, tokens_out: Codes, wanted: int, low: int, high: int,
    edges: Ints, users: Ints, excluded: Ints,
) -> Ints:  # fmt: skip
    """Records of the rows that take part, by bucket, in row order inside each: int64[n, FIELDS].

    first     `request_id` of the first row
    edges     int64[buckets + 1], filled with the records' bounds by bucket
    users     int64[users], requests of each user that take part, added to
    excluded  int64[len(RULES)], added to
    """
    rows, buckets = len(start), len(edges) - 1
    place = np.empty(rows, np.int32)
    edges[:] = 0
    for i in range(rows):
        why = _why_not(
            model[i], user[i], instance[i], tokens_in[i], tokens_out[i], endpoint[i], start[i],
            wanted, low, high,
        )  # fmt: skip
        if why >= 0:
            place[i] = -1
            excluded[why] += 1
        else:
            place[i] = _bucket(user[i], model[i], buckets)
            edges[place[i] + 1] += 1
            users[user[i]] += 1
    for b in range(buckets):
        edges[b + 1] += edges[b]
    at = edges[:-1].copy()
    records = np.empty((edges[buckets], FIELDS), np.int64)
    for i in range(rows):
        if place[i] >= 0:
            one = records[at[place[i]]]
            at[place[i]] += 1
            one[ROW] = np.int64(first + i) << ENDPOINT_BITS | np.int64(endpoint[i])
            one[START], one[END] = start[i], end[i]
            one[PAIR] = np.int64(user[i]) << 32 | np.int64(model[i])
            one[TOKENS] = np.int64(tokens_in[i]) << 32 | (np.int64(tokens_out[i]) & 0xFFFFFFFF)
    return records


@dataclass
class Selection:
    """Turns batches into records. Changed by `records`.

    trace     whose rows they are
    options   model and window
    buckets   how many
    excluded  int64[len(RULES)], rows left out so far
    users     int64[at least the users so far], requests that take part
    """

    trace: Trace
    options: SessionOptions
    buckets: int
    excluded: Ints = field(default_factory=lambda: np.zeros(len(RULES), np.int64))
    users: Ints = field(default_factory=lambda: np.zeros(1024, np.int64))

    def __post_init__(self) -> None:
        """Raises UsageError where the trace lacks a column without which there is no rule."""
        for name in COUNTS:
            if not self.trace.has(name):
                raise UsageError(
                    f"sessions cannot be rebuilt: the trace has no {name}, and the rule compares lengths. "
                    "Name its column with --map when the trace is read."
                )
        if self.options.parent_completed and not self.trace.has("completed_us"):
            raise UsageError(
                "--parent-completed needs the ends of requests, and the trace has no completed_us. Leave it "
                "out, or name the column with --map when the trace is read."
            )
        if self.options.model is not None and not self.trace.has("model"):
            raise UsageError("--model cannot be chosen: the trace states no models. Leave it out.")

    @property
    def columns(self) -> list[str]:
        """Columns to read."""
        optional = (*CONDITIONS, "completed_us")
        return ["arrival_us", *COUNTS, *(name for name in optional if self.trace.has(name))]

    def window_us(self) -> tuple[int, int]:
        """First arrival inside, first one after: microseconds since the first request."""
        if self.options.window_days is None:
            return -FOREVER, FOREVER
        return window_us(self.trace, self.options.window_days)

    def records(self, batch: Batch, known: dict[str, Category]) -> tuple[Ints, Ints]:
        """Records of the next rows by bucket, int64[n, FIELDS], and their bounds, int64[buckets + 1].

        known  the categories, as far as they have appeared
        """
        users = len(known["user"].texts) if "user" in known else 0
        if users > len(self.users):
            self.users = np.concatenate([self.users, np.zeros(2 * users - len(self.users), np.int64)])
        none = np.zeros(batch.rows, np.int32)
        codes: dict[str, Any] = {name: batch.columns.get(name, none) for name in (*CONDITIONS, *COUNTS)}
        if "endpoint" in batch.columns:
            codes["endpoint"] = _endpoints(known["endpoint"])[batch["endpoint"]]
        wanted = ANY
        if self.options.model is not None:
            code = int(known["model"].find([self.options.model])[0])
            wanted = code if code >= 0 else NOT_YET
        start: Any = batch["arrival_us"]
        end: Any = batch.columns.get("completed_us")
        edges = np.zeros(self.buckets + 1, np.int64)
        made = _select(
            batch.start, start,
            np.full(batch.rows, schema.NULL_INT64) if end is None else end,
            codes["model"], codes["user"], codes["instance"], codes["endpoint"],
            codes["input_tokens"], codes["output_tokens"],
            wanted, *self.window_us(), edges, self.users, self.excluded,
        )  # fmt: skip
        return made, edges


def _endpoints(known: Category) -> Codes:
    """By code of the trace, the place in `ENDPOINTS`; -1 for others and, at the end, for null."""
    table = np.full(len(known.texts) + 1, -1, np.int32)
    for place, code in enumerate(known.find(ENDPOINTS).tolist()):
        if code >= 0:
            table[code] = place
    return table
