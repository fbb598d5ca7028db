"""Presets: a study's models found by id or name, its windows, and that own choices win."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope import api
from servescope.errors import UsageError
from servescope.views.presets import MINIMAX, PRESETS, R1, V3_0324, V3_2, apply, settled, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.trace import Trace

DAY_US = 86_400_000_000
QWEN = "Qwen/Qwen3-Next-80B-A3B-Instruct"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Requests to two of the study's models by id, and one by name, in its windows."""
    models = [V3_0324.id, V3_2.id, "other", QWEN] * 50
    start = [(300 + i * 0.3) * DAY_US for i in range(len(models))]
    table = pa.table(
        {
            "invocation_id": range(len(models)),
            "function_name": ["chat"] * len(models),
            "chute_id": models,
            "user_id": ["u1", "u2"] * (len(models) // 2),
            "rehash_round": [0] * len(models),
            "instance_id": ["i1"] * len(models),
            "started_at": pa.array([int(s) for s in start], pa.timestamp("us")),
            "completed_at": pa.array([int(s) + 10**6 for s in start], pa.timestamp("us")),
            "it": [1000] * len(models),
            "ot": [100] * len(models),
            "ct": [0] * len(models),
            "ttft": [0.5] * len(models),
        }
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    return api.read(tmp_path / "trace.parquet")


def test_windows_are_those_of_the_artifact_to_the_microsecond() -> None:
    preset = PRESETS["chutes"]

    def days(text: str) -> float:
        span = datetime.fromisoformat(text) - datetime(1970, 1, 1)
        return span / timedelta(microseconds=1) / DAY_US

    at = "T19:59:59.984705"
    for window, first, last in (
        (preset.lb_window_days, "1970-11-02", "1970-12-31"),
        (preset.raster_user_days, "1970-06-16", "1970-07-23"),
        (preset.raster_model_days, "1970-06-16", "1970-08-16"),
    ):
        assert [round(day * DAY_US) for day in window] == [
            round(days(first + at) * DAY_US),
            round(days(last + at) * DAY_US),
        ]


def test_a_model_is_found_by_id_by_name_and_by_name_with_its_id() -> None:
    assert text_of(R1, ["x", R1.id]) == R1.id
    assert text_of(MINIMAX, ["minimax/Minimax-2.5-TEE"]) == "minimax/Minimax-2.5-TEE"
    assert text_of(V3_2, [f"deepseek-ai/DeepSeek-V3.2-TEE [{V3_0324.id}]"]) is None
    assert text_of(V3_2, [f"deepseek-ai/DeepSeek-V3.2-TEE [{V3_2.id}]"]) is not None
    assert text_of(V3_0324, ["deepseek-ai/DeepSeek-V3-0324"]) is None


def test_models_that_the_trace_lacks_are_left_out_and_noted(trace: Trace) -> None:
    applied = apply("chutes", trace)
    assert applied.fields["highlights"] == (V3_0324.id,)
    assert applied.fields["lb_models"] == (V3_0324.id, V3_2.id)
    assert applied.fields["raster_models"] == (QWEN,)
    assert applied.roles == {"load": V3_0324.id, "latency": V3_2.id}
    assert applied.notes == [
        "preset chutes: the trace has no model deepseek-ai/DeepSeek-R1-TEE",
        "preset chutes: the trace has no model MiniMaxAI/MiniMax-M2.5-TEE",
        "preset chutes: the trace has no model openai/gpt-oss-20b",
    ]


def test_own_choices_win_over_the_preset(trace: Trace) -> None:
    asked = {
        "preset": "chutes",
        "highlights": ("other",),
        "lb_models": (),
        "lb_window_days": None,
        "threads": 1,
    }
    options, stated, _ = settled(trace, asked)
    assert options["highlights"] == ("other",)
    assert options["lb_models"] == (V3_0324.id, V3_2.id)
    assert options["lb_window_days"] == PRESETS["chutes"].lb_window_days
    assert stated["preset"] == "chutes" and "threads" not in stated
    assert settled(trace, {"highlights": ()})[0] == {"highlights": ()}


def test_views_take_the_preset_and_set_published_numbers_beside(trace: Trace) -> None:
    result = api.views(
        trace, view=["value_hist", "instance_minute", "facts"], preset="chutes", compare="chutes"
    )
    series = set(result["value_hist"].data["series"].to_pylist())
    assert {V3_0324.id} == series - {"global", "lt1k", "ge8k"}
    assert set(result["instance_minute"].data["model"].to_pylist()) == {V3_0324.id, V3_2.id}
    rows = {row["finding"]: row for row in result["compare_chutes"].rows()}
    assert rows["requests"]["ours"] == 200 and rows["requests"]["published_low"] == 6_122_413_756
    assert rows["users"]["ours"] == 2
    assert rows["models a day, median of the first 30 days"]["ours"] is None
    assert result.inputs["compare"] == result.inputs["preset"] == "chutes"
    assert "preset chutes: the trace has no model openai/gpt-oss-20b" in result.notes


def test_unknown_studies_are_refused_before_the_scan(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'unknown preset "chute"\. Did you mean chutes'):
        api.views(trace, preset="chute")
    with pytest.raises(UsageError, match=r'unknown study "nobody"\. Known: chutes'):
        api.report(trace, out=tmp_path / "out", compare="nobody")
    assert not (tmp_path / "out").exists()


def test_a_report_remembers_its_study(trace: Trace, tmp_path: Path) -> None:
    made = api.report(
        trace, out=tmp_path / "out", figures=False, preset="chutes", compare="chutes", rows=True
    )
    assert f"raster_rows: {QWEN} has no requests in the raster window" in made.notes
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 'id="tab-study"' in page and "6,122,413,756" in page
    assert (tmp_path / "out" / "tables" / "compare_chutes.parquet").exists()
    api.report_from(tmp_path / "out", figures=False)
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == page


def test_a_written_report_can_be_compared_later(trace: Trace, tmp_path: Path) -> None:
    api.report(trace, out=tmp_path / "out", figures=False)
    page = tmp_path / "out" / "report.html"
    assert "6,122,413,756" not in page.read_text(encoding="utf-8")
    api.report_from(tmp_path / "out", figures=False, compare="chutes")
    assert "6,122,413,756" in page.read_text(encoding="utf-8")
