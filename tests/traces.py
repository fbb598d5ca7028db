"""Random small traces: nulls, ties, empty lists, several types, models and scopes, any cut into parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from servescope import schema
from servescope.arrays import ArrayPart, Columns
from servescope.ledger import Ledger
from servescope.trace import Origin, Trace, TraceMeta

GAPS_US = st.sampled_from([0, 0, 1, 400, 999_999, 4_000_000, 10_000_000, 299_999_999, 3 * 3_600_000_000])
OPTIONAL = (
    "endpoint", "request_type", "model", "user", "input_tokens", "output_tokens", "cached_tokens", "ttft_s",
    "completed_us", "status", "cache_scope", "session_id", "parent_id", "turn", "block_ids",
    "instance", "cohort",
)  # fmt: skip
TEXTS = {
    "endpoint": ["chat", "embed", "completion_stream"],
    "request_type": ["text", "search", "image"],
    "model": ["m0", "m1", "m2", "m3", "m4"],
    "user": ["u0", "u1", "u2"],
    "instance": ["i0", "i1", "i2"],
    "status": ["ok", "failed", "unknown"],
    "cache_scope": ["s0", "s1"],
}
TOKENS = st.one_of(st.none(), st.sampled_from([0, 1, 2, 41, 999, 1000, 1023, 7999, 8000, 100_000]))
CUTS = (0.0, 0.01, 0.5, 299.9999, 300.0, 1234.5)


def build(columns: dict[str, Any], *, cuts: tuple[int, ...] = (), **meta: Any) -> Trace:
    """A trace from column -> list of Python values (None = null; categories as text; blocks as lists).

    cuts  rows at which a new part begins
    meta  fields of `TraceMeta` to set
    """
    rows = len(columns["arrival_us"])
    values: dict[str, Any] = {"request_id": np.arange(rows), "source_row": np.arange(rows) + 1}
    texts: dict[str, list[str]] = {}
    blocks: dict[str, Any] = {}
    for name, column in columns.items():
        spec = schema.BY_NAME[name]
        if name == "block_ids":
            lists = [item or [] for item in column]
            blocks["block_offsets"] = np.cumsum([0, *map(len, lists)]).astype(np.int64)
            blocks["block_values"] = np.array([x for item in lists for x in item], np.uint64)
            blocks["block_null"] = np.array([item is None for item in column], np.bool_)
        elif name in schema.CATEGORIES:
            texts[name] = sorted({text for text in column if text is not None})
            codes = [-1 if text is None else texts[name].index(text) for text in column]
            values[name] = np.array(codes, np.int32)
        else:
            values[name] = np.array([spec.null if x is None else x for x in column], spec.dtype)
    held = Columns(rows, values, texts, **blocks)
    facts = {"block_tokens": 16, "chained": False, "origin": Origin(), **meta}
    described = TraceMeta("test", [], [], columns=held.present(), ledger=Ledger(rows, rows), **facts)
    edges = [0, *sorted(set(cuts)), rows]
    return Trace(described, tuple(ArrayPart(held, a, b) for a, b in itertools.pairwise(edges)))


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    """The rows as Python values; columns that the source lacks are None."""
    return [row for piece in trace.arrow(schema.NAMES) for row in piece.to_pylist()]


@st.composite
def traces(draw: st.DrawFn, *, need: tuple[str, ...] = (), most: int = 24) -> Trace:
    """A random trace of 1 … `most` rows that has the columns `need` and some others."""
    rows = draw(st.integers(1, most))
    held = {*need, *draw(st.lists(st.sampled_from(OPTIONAL)))}

    def column(items: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(items, min_size=rows, max_size=rows))

    arrival = np.cumsum([0, *column(GAPS_US)[1:]]).tolist()
    columns: dict[str, Any] = {"arrival_us": arrival}
    for name in OPTIONAL:
        if name not in held:
            continue
        if name in TEXTS:
            columns[name] = column(st.one_of(st.none(), st.sampled_from(TEXTS[name])))
        elif name.endswith("_tokens"):
            columns[name] = column(TOKENS)
        elif name == "ttft_s":
            columns[name] = column(st.one_of(st.none(), st.sampled_from(CUTS)))
        elif name == "completed_us":
            ends = column(st.one_of(st.none(), st.sampled_from((-1, 0, 10_000, 600_000, 300_000_000))))
            columns[name] = [None if e is None else a + e for a, e in zip(arrival, ends, strict=True)]
        elif name == "cohort":
            columns[name] = column(st.one_of(st.none(), st.integers(1, 13)))
        elif name == "turn":
            columns[name] = column(st.one_of(st.none(), st.integers(1, 5)))
        elif name == "session_id":
            columns[name] = column(st.one_of(st.none(), st.integers(0, 3)))
        elif name == "parent_id":
            columns[name] = column(st.one_of(st.none(), st.integers(0, rows - 1)))
        else:
            ids = st.lists(st.sampled_from((1, 2, 3, 2**64 - 1)), max_size=4)
            columns[name] = column(st.one_of(st.none(), ids))
    cuts = tuple(draw(st.lists(st.integers(0, rows), max_size=4)))
    first_ns = draw(st.sampled_from((0, 86_399_999_999_000, 1_700_000_000_123_456_700)))
    return build(columns, cuts=cuts, origin=Origin("calendar", first_ns))
