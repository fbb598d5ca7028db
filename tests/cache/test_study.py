"""The study's own choices, and its published rows beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from servescope.cache import reproduce as reproducing
from servescope.cache import study as studying
from servescope.cache.options import CacheOptions
from servescope.cache.reproduce import CELLS, reproduced, workload_models
from servescope.cache.result import result_tables
from servescope.cache.study import DATA, STUDIES, published_rows, published_workloads, settled
from servescope.errors import UsageError
from servescope.sessions.links import SessionOptions
from servescope.trace import Origin
from tests.cache.sessions import growing_trace

if TYPE_CHECKING:
    from servescope.trace import Trace

MINIMAX = "MiniMaxAI/MiniMax-M2.5-TEE"
V3_2 = "deepseek-ai/DeepSeek-V3.2-TEE"
STUDY = STUDIES["chutes"]


def chutes_trace(*models: str, rows: int = 240, day: int = 347) -> Trace:
    """A trace of these models in turn that starts on a day of the nominal clock."""
    names = [models[row % len(models)] for row in range(rows)]
    trace = growing_trace(rows, model=names)
    return trace.with_meta(origin=Origin("nominal", day * 86_400_000_000_000))


def test_the_published_rows_are_whole_and_attributed() -> None:
    rows = published_rows()
    assert len(rows) == 180
    assert {row["policy"] for row in rows} == set(STUDY.policies)
    assert {row["workload"] for row in rows} == {one.label for one in STUDY.workloads}
    known = published_workloads()
    for row in rows:
        facts = known[row["workload"]]
        assert row["requests"] == facts["requests"]
        assert row["cache_size_kib"] in facts["cache_sizes_kib"]
    for facts in known.values():
        for share, kib in zip(STUDY.shares, facts["cache_sizes_kib"], strict=True):
            tokens = float(share.removesuffix("%")) / 100 * facts["working_set_tokens"]
            assert int(tokens / 1024) == kib
    assert "eviction.csv" in (DATA / "ATTRIBUTION.md").read_text()
    assert "CC BY 4.0" in reproducing.CREDIT


def test_windows_are_the_published_ones() -> None:
    for one in STUDY.workloads:
        facts = published_workloads()[one.label]
        assert one.model.id == facts["chute_id"] and facts["model_name"] in one.model.names
        start, end = (facts[name].split("T")[0] for name in ("start_time", "end_time"))
        assert (int(one.window_days[1]) - int(one.window_days[0])) == 7
        assert (start, end) in {("1970-12-13", "1970-12-20"), ("1970-10-30", "1970-11-06")}


def test_the_preset_fills_in_what_is_left_out() -> None:
    options, rows, notes = settled(chutes_trace(MINIMAX, "other"), CacheOptions(preset="chutes"))
    assert options.policies == tuple(STUDY.policies.values()) and options.capacities == STUDY.shares
    assert options.credit == "prompt"
    ((one,)) = rows
    assert one.model == MINIMAX and one.window_days == STUDY.workloads[0].window_days
    assert notes == [
        "preset chutes: hits are credited with the whole prompt (--credit prompt)",
        f"the trace has no model {V3_2}: its published rows stand alone",
    ]
    own = CacheOptions(preset="chutes", policies=("lru",), credit="prefix", capacities=("5%",))
    kept, _, _ = settled(chutes_trace(MINIMAX), own)
    assert (kept.policies, kept.credit, kept.capacities) == (("lru",), "prefix", ("5%",))


def test_without_lightgbm_the_preset_leaves_lrb_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studying, "find_spec", lambda name: None)
    options, _, notes = settled(chutes_trace(MINIMAX), CacheOptions(preset="chutes"))
    assert len(options.policies) == 8 and "lrb" not in options.policies
    assert any(note.startswith("lrb is left out") for note in notes)
    options, _, notes = settled(chutes_trace(MINIMAX), CacheOptions(preset="chutes", policies=("lrb",)))
    assert options.policies == ("lrb",) and not any("lrb" in note for note in notes)


def test_an_empty_window_is_opened_and_said() -> None:
    _, rows, notes = settled(chutes_trace(MINIMAX, V3_2, day=3), CacheOptions(preset="chutes"))
    assert [row.model for row in rows] == [MINIMAX, V3_2]
    assert [row.window_days for row in rows] == [None, None]
    assert len(notes) == 3 and "holds no request" in notes[1]
    asked = CacheOptions(preset="chutes", sessions=SessionOptions(window_days=(3.0, 4.0)))
    _, rows, notes = settled(chutes_trace(MINIMAX, day=3), asked)
    assert rows[0].window_days == (3.0, 4.0) and len(notes) == 2


def test_without_the_models_those_there_are_listed() -> None:
    with pytest.raises(UsageError, match=r"neither MiniMaxAI.*Its models: a \(120 requests\), b .*--model"):
        settled(chutes_trace("a", "b"), CacheOptions(preset="chutes"))
    with pytest.raises(UsageError, match=r'unknown study "chutez"\. Did you mean chutes'):
        settled(chutes_trace("a"), CacheOptions(preset="chutez"))


def beside(trace: Trace, **options: Any) -> list[dict[str, Any]]:
    given = {"preset": "chutes", "policies": ("fifo,lru,gdsf",), "resamples": 5, **options}
    asked = CacheOptions(**given)
    models = workload_models(trace, asked, "chutes")
    tables, _, done = result_tables(trace, asked)
    cells, facts = reproduced("chutes", models, tables, str(done.credit))
    assert cells.data.column_names == list(CELLS)
    assert facts.data.num_rows == 14
    return cells.rows()


def test_every_published_row_stands_beside_ours_with_a_cause() -> None:
    trace = chutes_trace(MINIMAX, "other")
    rows = beside(trace)
    assert len(rows) == 180
    tables, _, _ = result_tables(trace, CacheOptions(preset="chutes", policies=("lru",), resamples=5))
    ours = {row["capacity_share"]: row for row in tables[0].rows()}
    for row in rows:
        if row["workload"] == "deepseek_v32":
            assert row["miss_ratio"] is None and row["cause"] == "the trace has no such model"
        elif row["policy"] not in ("fifo", "lru", "gdsf"):
            assert row["cause"] == "this policy or size was not run"
        else:
            assert row["cause"].startswith("the trace is not the study's: 120 requests, published 4,223,356")
            assert row["miss_ratio_deviation"] == row["miss_ratio"] - row["published_miss_ratio"]
            assert row["requests"] == 120
        if row["policy"] == "lru" and row["workload"] == "minimax_m25":
            mine = min(ours.values(), key=lambda one: abs(one["capacity_tokens"] - row["capacity_tokens"]))
            assert row["byte_miss_ratio"] == 1 - mine["token_hit_ratio"]


def test_named_models_stand_for_the_study_s() -> None:
    rows = beside(chutes_trace("a", "b"), models=("b",))
    run = [row for row in rows if row["miss_ratio"] is not None]
    assert {(row["workload"], row["model"]) for row in run} == {("minimax_m25", "b"), ("deepseek_v32", "b")}
    rows = beside(chutes_trace("a", "b"), models=("b", "a"))
    run = [row for row in rows if row["miss_ratio"] is not None]
    assert {(row["workload"], row["model"]) for row in run} == {("minimax_m25", "b"), ("deepseek_v32", "a")}
    with pytest.raises(UsageError, match="--model is given 3 times"):
        workload_models(chutes_trace("a"), CacheOptions(models=("a", "b", "c")), "chutes")


def test_the_other_credit_is_a_cause() -> None:
    rows = beside(chutes_trace(MINIMAX), credit="prefix")
    assert any("ours the kept prefix" in row["cause"] for row in rows)


def test_a_row_that_agrees_needs_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = chutes_trace(MINIMAX)
    (lru,) = [row for row in beside(trace) if row["policy"] == "lru" and row["capacity_share"] == 0.01][:1]
    known = [
        {
            **row,
            "miss_ratio": round(lru["miss_ratio"], 4),
            "byte_miss_ratio": round(lru["byte_miss_ratio"], 4),
        }
        for row in published_rows()
    ]
    monkeypatch.setattr(reproducing, "published_rows", lambda: tuple(known))
    again = next(row for row in beside(trace) if row["policy"] == "lru" and row["capacity_share"] == 0.01)
    assert again["cause"] == "" and abs(again["miss_ratio_deviation"]) <= 0.00005
