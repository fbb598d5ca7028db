"""Reuse times, lifespans, concentration and next turns against plain Python and known distributions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import servescope as ss
from servescope.cache.categories import Categories, categories_of
from servescope.cache.findings import findings
from servescope.cache.prompts import PromptTrace, prompts_of
from servescope.kernels import histogram
from tests.cache.prompts import PROMPTS
from tests.reference import block_findings
from tests.shared import DATA, needs_data
from tests.traces import build

if TYPE_CHECKING:
    from servescope.result import Table

GAPS_US = st.lists(st.sampled_from([0, 1, 250_000, 300_000, 300_001, 5_000_000]), min_size=14, max_size=14)
KINDS = st.lists(st.integers(0, 2), min_size=14, max_size=14)
NAMES = ["a", "b", "c"]


def found_of(prompts: list[tuple[int, ...]], times_us: list[int], **columns: Any) -> PromptTrace:
    blocks = {"block_ids": [list(prompt) for prompt in prompts]}
    return prompts_of(build({"arrival_us": times_us, **blocks, **columns}))


def tables_of(found: PromptTrace, kinds: list[int], types: tuple[str, ...] = ()) -> dict[str, Table]:
    categories = Categories(np.array(kinds, np.int32), NAMES, "stated")
    return {table.name: table for table in findings(found, categories, types)[0]}


def bins_of(table: Table, category: str) -> list[tuple[float, float, int]]:
    rows = [row for row in table.rows() if row["category"] == category]
    return [(row["bin_low"], row["bin_high"], row["count"]) for row in rows]


def expected_bins(spans_us: list[int]) -> list[tuple[float, float, int]]:
    counts = histogram.log_bins(np.array(spans_us, np.int64) * 1e-6)
    return list(zip(*(part.tolist() for part in histogram.filled(counts)), strict=True))


@settings(max_examples=30)
@given(PROMPTS, GAPS_US, KINDS)
def test_times_and_lifespans_are_those_of_plain_python(
    prompts: list[tuple[int, ...]], gaps: list[int], kinds: list[int]
) -> None:
    times = np.cumsum([0, *gaps])[: len(prompts)].tolist()
    kinds = kinds[: len(prompts)]
    tables = tables_of(found_of(prompts, times), kinds)
    reuses = block_findings.reuses(prompts, times, kinds)
    spans = block_findings.lifespans(prompts, times, kinds)
    fits = {row["category"]: row for row in tables["reuse_fit"].rows()}
    summary = {row["category"]: row for row in tables["lifespan_summary"].rows()}
    for name, code in [*zip(NAMES, range(3), strict=True), ("*", None)]:
        mine = [gap for kind, gap in reuses if code in (None, kind)]
        touches = sum(len(p) for p, kind in zip(prompts, kinds, strict=True) if code in (None, kind))
        late = [gap for gap in mine if gap > 300_000]
        row = fits[name]
        assert (row["touches"], row["reused"], row["late_reused"]) == (touches, len(mine), len(late))
        assert row["mean_s"] == (pytest.approx(sum(mine) / len(mine) / 1e6) if mine else None)
        if late:
            assert row["late_rate_per_s"] == pytest.approx(len(late) * 1e6 / sum(late))
            spread = sum(late) - len(late) * min(late)
            expected = pytest.approx(len(late) * 1e6 / spread) if spread else None
            assert row["late_located_rate_per_s"] == expected
        assert bins_of(tables["reuse_time"], name) == expected_bins(mine)
        lives = [span for kind, span in spans if code in (None, kind)]
        assert bins_of(tables["block_lifespan"], name) == expected_bins(lives)
        assert summary[name]["blocks"] == len(lives)
        assert summary[name]["max_s"] == (max(lives) / 1e6 if lives else None)


@settings(max_examples=30)
@given(PROMPTS, KINDS)
def test_what_carries_the_reuse_is_that_of_plain_python(
    prompts: list[tuple[int, ...]], kinds: list[int]
) -> None:
    types = [NAMES[kind] for kind in kinds[: len(prompts)]]
    found = found_of(prompts, list(range(len(prompts))), request_type=types)
    names = sorted(set(types))
    tables = tables_of(found, kinds[: len(prompts)], tuple(names))
    counts = sorted((many - 1 for many in block_findings.uses(prompts).values()), reverse=True)
    shares = {row["who"]: row for row in tables["reuse_concentration"].rows()}
    for text, share in (("10", 10), ("20", 5), ("50", 2)):
        row = shares[f"blocks, top {text} %"]
        assert (row["members"], row["reuses"]) == (len(counts) // share, sum(counts[: len(counts) // share]))
    runs = block_findings.runs(prompts)
    expected = sorted((blocks * (many - 1), many, ways) for blocks, many, ways in runs.values() if many > 1)
    rows = tables["top_prefixes"].rows()
    got = sorted((row["hit_blocks"], row["uses"], row["children"]) for row in rows)
    assert got == expected
    assert sum(row["hit_blocks"] for row in rows) == sum(counts)
    assert [row["hit_blocks"] for row in rows] == sorted((row[0] for row in expected), reverse=True)
    used: dict[tuple[int, ...], set[str]] = {}
    for nodes, name in zip(block_findings.paths(prompts), types, strict=True):
        for node in nodes:
            used.setdefault(node, set()).add(name)
    texts = [", ".join(sorted(used[node])) for node, run in runs.items() if run[1] > 1]
    assert sorted(row["request_types"] for row in rows) == sorted(texts)


def one_block_after(gaps_us: list[int]) -> dict[str, Any]:
    """The fit of one block that is used again after these times."""
    times = np.cumsum([0, *gaps_us]).tolist()
    found = found_of([(1,)] * len(times), times)
    return tables_of(found, [0] * len(times))["reuse_fit"].rows()[0]


def test_a_fit_is_good_where_times_are_exponential_and_bad_where_they_are_not() -> None:
    random = np.random.default_rng(3)
    good = one_block_after((random.exponential(4.0, 20_000) * 1e6).astype(int).tolist())
    assert good["rate_per_s"] == pytest.approx(0.25, rel=0.03)
    assert good["ks"] < 0.01
    assert 0 <= good["kl_nats"] < 0.02
    assert good["log_likelihood"] == pytest.approx(np.log(0.25) - 1, abs=0.03)
    assert good["late_located_rate_per_s"] == pytest.approx(0.25, rel=0.03)  # memoryless: shifted, not slower
    assert good["p"] == pytest.approx(20_000 / 20_001)
    fixed = one_block_after([4_000_000] * 500)
    assert fixed["rate_per_s"] == pytest.approx(0.25)
    assert fixed["ks"] == pytest.approx(1 - np.exp(-1), abs=0.02)  # the whole mass lies at the mean
    assert fixed["kl_nats"] > 1


def test_times_that_are_all_zero_have_no_rate() -> None:
    row = one_block_after([0, 0, 0])
    assert (row["reused"], row["rate_per_s"], row["ks"], row["kl_nats"]) == (3, None, None, None)


def test_next_turns_follow_the_stated_parents() -> None:
    columns = {
        "request_type": ["text", "text", "file", "text", None],
        "parent_id": [None, 0, None, 1, 0],
        "turn": [1, 2, 1, 3, 2],
    }
    found = found_of([(1,), (1, 2), (5,), (1, 2, 3), (1, 4)], [0, 10, 20, 30, 40], **columns)
    rows = tables_of(found, [0] * 5, ("file", "text"))["next_turn_probability"].rows()
    values = [(row["request_type"], row["turn"], row["requests"], row["followed"]) for row in rows]
    assert values == [
        ("file", 1, 1, 0), ("text", 1, 1, 1), ("text", 2, 1, 1), ("text", 3, 1, 0), ("untyped", 2, 1, 0),
        ("*", 1, 2, 1), ("*", 2, 2, 1), ("*", 3, 1, 0),
    ]  # fmt: skip


def test_turns_come_from_the_parents_where_none_are_stated() -> None:
    found = found_of([(1,)] * 4, [0, 1, 2, 3], parent_id=[None, 0, 1, None])
    rows = tables_of(found, [0] * 4)["next_turn_probability"].rows()
    assert [(row["turn"], row["requests"], row["followed"]) for row in rows] == [
        (1, 2, 1),
        (2, 1, 1),
        (3, 1, 0),
    ]


def test_single_turns_and_users_share_the_hits() -> None:
    found = found_of(
        [(1, 2), (1, 2, 3), (1,), (1, 2, 3)],
        [0, 1, 2, 3],
        parent_id=[None, 0, None, None],
        user=["u", "u", "v", "w"],
    )
    rows = {row["who"]: row for row in tables_of(found, [0] * 4)["reuse_concentration"].rows()}
    assert rows["single-turn requests"]["members"] == 2
    assert (rows["single-turn requests"]["reuses"], rows["single-turn requests"]["share_of_reuses"]) == (
        4,
        4 / 6,
    )
    users = rows["users with more than 90 % of hits"]
    assert (users["members"], users["reuses"]) == (3, 6)  # w 3, u 2, v 1: five of six are not enough


def test_notes_say_what_a_short_trace_cannot_tell() -> None:
    categories = Categories(np.zeros(3, np.int32), ["1"], "stated")
    _, notes = findings(found_of([(1,), (2,), (3,)], [0, 1, 2]), categories, ())
    assert any("no block is used twice" in note for note in notes)
    _, notes = findings(found_of([(1,), (1,), (2,)], [0, 9, 10]), categories, ())
    assert any("too short" in note for note in notes)


@needs_data
def test_the_reuse_of_mooncake() -> None:
    found = prompts_of(ss.read(DATA / "mooncake_conversation.jsonl"))
    tables = {table.name: table for table in findings(found, categories_of(found, ()), ())[0]}
    whole = tables["reuse_fit"].rows()[-1]
    assert (whole["category"], whole["touches"], whole["reused"]) == ("*", 288_500, 288_500 - 182_790)
    assert round(whole["p"], 4) == 0.3664
    top = [row["hit_blocks"] for row in tables["top_prefixes"].rows()]
    assert all(a >= b for a, b in itertools.pairwise(top))
    assert top[0] == 12_030  # all prompts begin with the same block
