"""The block tables against plain Python, and the published figures of real traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.formats.read import read_trace
from servescope.views import blocks, run_views
from tests.reference.blocks import Reuse
from tests.shared import DATA, needs_data
from tests.traces import build, rows_of, traces

if TYPE_CHECKING:
    from servescope.trace import Trace

NAMES = ("block_reuse", "reuse_ceiling", "hit_rates", "reuse_position")
COUNTS = ("block_references", "seen_blocks", "prefix_blocks")
LINKS = ("child_requests", "child_blocks", "parent_blocks_matched")


def made(trace: Trace, *names: str) -> dict[str, list[dict[str, Any]]]:
    tables, _, _ = run_views(trace, names or NAMES, threads=1)
    return {table.name: table.rows() for table in tables}


def over(part: float, whole: float) -> float | None:
    return pytest.approx(part / whole) if whole else None


@given(
    traces(need=("block_ids", "request_type", "input_tokens", "session_id", "parent_id")), st.integers(1, 9)
)
def test_all_block_tables(trace: Trace, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "PIECE_ROWS", piece)
        found = made(trace)
    reuse = Reuse(rows_of(trace))
    scopes = ["*", *trace.names("request_type")]
    assert [row["request_type"] for row in found["block_reuse"]] == scopes
    for row in found["block_reuse"]:
        expected = reuse.block_reuse(row["request_type"])
        assert tuple(row[name] for name in COUNTS + LINKS) == expected
        assert row["block_reuse_ratio"] == over(expected[1], expected[0])
        assert row["prefix_reuse_ratio"] == over(expected[2], expected[0])
        assert row["parent_match_ratio"] == over(expected[5], expected[4])
    for row, first in zip(found["reuse_ceiling"], (0, trace.rows // 2), strict=True):
        requests, references, prefix, tokens, saved, own, own_tokens = reuse.ceiling(first, 16)
        assert list(row.values())[1:] == [
            *(requests, references, prefix, over(prefix, references), tokens, saved, over(saved, tokens)),
            *(own, prefix - own, own_tokens, saved - own_tokens),
        ]
    for scope in scopes:
        held = [row for row in found["reuse_position"] if row["request_type"] == scope]
        cells = {(r["position_low"], r["position_high"]): tuple(r[name] for name in COUNTS) for r in held}
        assert cells == reuse.positions(scope)


@given(traces(need=("block_ids", "input_tokens")))
def test_hit_rates(trace: Trace) -> None:
    found = {row["name"]: row for row in made(trace)["hit_rates"]}
    reuse = Reuse(rows_of(trace))
    parts = dict.fromkeys(found, 0.0)
    wholes = dict.fromkeys(found, 0)
    for row in reuse.members("*"):
        tokens, held = row["input_tokens"] or 0, len(row["block_ids"])
        hit, full = reuse.found[row["request_id"]]["*"][0], min(held, tokens // 16)
        for name, part, whole in (
            ("block_hit_rate_partial_tails_count", hit, held),
            ("block_hit_rate_full_blocks_only", min(hit, full), full),
            ("token_hit_rate_partial_tails_count", min(hit * 16, tokens), tokens),
            ("token_hit_rate_full_blocks_only", min(hit, full) * 16, tokens),
            ("requests_with_any_hit", hit > 0, 1),
            ("mean_of_request_block_ratios", hit / held if held else 0, held > 0),
        ):
            parts[name] += part
            wholes[name] += whole
    for name, row in found.items():
        assert row["numerator"] == pytest.approx(parts[name], abs=1e-7), name
        assert row["denominator"] == wholes[name], name
        value = parts[name] / wholes[name] if wholes[name] else None
        assert row["value"] == (None if value is None else pytest.approx(value, abs=1e-7)), name
        assert row["value"] is None or row["value"] <= 1


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from((1, 2)), max_size=5), min_size=1, max_size=12))
def test_chained_ids_take_a_shorter_way_to_the_same_tables(prompts: list[list[int]]) -> None:
    chains = {}
    lists = [[chains.setdefault(tuple(p[: i + 1]), len(chains)) for i in range(len(p))] for p in prompts]
    columns = {"arrival_us": list(range(len(lists))), "block_ids": lists, "request_type": ["a"] * len(lists)}
    assert made(build(columns, chained=True)) == made(build(columns, chained=False))


def test_without_sessions_and_parents_the_split_is_null() -> None:
    trace = build({"arrival_us": [0, 1], "block_ids": [[1], [1, 2]]})
    found = made(trace)
    assert [found["block_reuse"][0][name] for name in (*LINKS, "parent_match_ratio")] == [None] * 4
    names = ("same_session_blocks", "cross_session_blocks", "same_session_tokens", "cross_session_tokens")
    assert [[row[name] for name in names] for row in found["reuse_ceiling"]] == [[None] * 4] * 2


def test_an_unknown_chain_is_noted_and_no_blocks_are_refused() -> None:
    _, notes, _ = run_views(build({"arrival_us": [0], "block_ids": [[1]]}, chained=None), ["hit_rates"])
    assert notes == [
        "it is not known whether block ids are chained; prefixes are matched by their ids in order"
    ]
    with pytest.raises(UsageError, match=r"hit_rates.*the source has no block_ids"):
        made(build({"arrival_us": [0]}), "hit_rates")


@needs_data
@pytest.mark.parametrize(
    ("name", "references", "distinct", "ratio"),
    [("conversation", 288_500, 182_790, 0.3664), ("synthetic", 121_877, 43_924, 0.6396)],
)
def test_mooncake(name: str, references: int, distinct: int, ratio: float) -> None:
    trace = read_trace([str(DATA / f"mooncake_{name}.jsonl")])
    found = made(trace, "facts", *NAMES)
    assert found["facts"][0]["block_references"] == references
    assert found["facts"][0]["distinct_blocks"] == distinct
    whole, half = found["reuse_ceiling"]
    assert (whole["block_references"], whole["prefix_blocks"]) == (references, references - distinct)
    assert whole["prefix_reuse_ratio"] == pytest.approx(ratio, abs=5e-5)
    assert half["requests"] == trace.rows - trace.rows // 2
    if name == "conversation":
        assert whole["token_prefix_reuse_ratio"] == pytest.approx(0.3736, abs=5e-5)
        assert half["token_prefix_reuse_ratio"] == pytest.approx(0.398, abs=5e-4)
