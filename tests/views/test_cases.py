"""The shared cases that speak of views, and facts of the real traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.views import ViewOptions, run_views
from tests.shared import CASES, DATA, needs_cases, needs_data

if TYPE_CHECKING:
    from pathlib import Path


def made(path: Path, *names: str, windows_s: tuple[float, ...] = (10, 300), **options: Any) -> dict[str, Any]:
    trace = read_trace([str(path)], ReadOptions(**options))
    tables, _, _ = run_views(trace, names, options=ViewOptions(windows_s))
    return {table.name: table.rows() for table in tables}


@needs_cases
def test_24_windows_are_left_closed_and_empty_ones_are_rows() -> None:
    found = made(CASES / "24-rate-bins.jsonl", "rate", "arrival_stats", windows_s=(60,))
    assert [row["requests"] for row in found["rate"]] == [2, 1, 0, 2]
    assert [row["start_s"] for row in found["rate"]] == [0, 60, 120, 180]
    assert [row["complete"] for row in found["rate"]] == [True, True, True, False]
    (stats,) = found["arrival_stats"]
    assert stats["iat_mean_s"] == pytest.approx(59.99975, abs=1e-9)
    assert stats["iat_cv_population"] == pytest.approx(0.7071, abs=5e-5)
    assert stats["iat_cv_sample"] == pytest.approx(0.8165, abs=5e-5)
    assert (stats["span_s"], stats["windows_span_s"]) == (239.999, 240.0)
    assert stats["requests_per_s_over_span"] == pytest.approx(0.0208334, abs=5e-8)
    assert stats["requests_per_s_over_windows"] == pytest.approx(0.0208333, abs=5e-8)


@needs_cases
def test_33_every_rate_has_its_name_and_its_parts() -> None:
    rows = made(CASES / "33-hit-rate-names.jsonl", "hit_rates")["hit_rates"]
    assert [(row["name"], row["numerator"], row["denominator"]) for row in rows[:5]] == [
        ("block_hit_rate_partial_tails_count", 6, 11),
        ("block_hit_rate_full_blocks_only", 5, 8),
        ("token_hit_rate_partial_tails_count", 3036, 5136),
        ("token_hit_rate_full_blocks_only", 2560, 5136),
        ("requests_with_any_hit", 3, 5),
    ]
    assert rows[5]["name"] == "mean_of_request_block_ratios"
    assert rows[5]["value"] == pytest.approx(13 / 30, abs=1e-9)


@needs_cases
def test_26_what_is_found_in_an_unlimited_cache() -> None:
    found = made(CASES / "26-cumulative-turns.jsonl", "reuse_ceiling", "type_summary")
    whole = found["reuse_ceiling"][0]
    assert (whole["input_tokens"], whole["prefix_tokens"], whole["prefix_blocks"]) == (194, 96, 6)
    assert (whole["same_session_tokens"], whole["cross_session_tokens"]) == (96, 0)
    assert found["type_summary"][0]["multi_turn_fraction"] == 1
    assert found["type_summary"][0]["turns_max"] == 3


@needs_cases
def test_19_failed_requests_count_in_rates_and_not_in_output_lengths() -> None:
    found = made(CASES / "19-burst-failures.csv", "arrival_stats", "length_stats")
    lengths = {row["metric"]: row for row in found["length_stats"] if row["request_type"] == "*"}
    assert found["arrival_stats"][0]["requests"] == 5
    assert (lengths["output"]["n"], lengths["output"]["failed_excluded"]) == (4, 1)
    assert (lengths["input"]["n"], lengths["input"]["failed_excluded"]) == (5, 0)


@needs_cases
def test_04_unknown_outputs_are_counted_and_zero_is_a_value() -> None:
    mapped = {"arrival": "ts_s", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    path = CASES / "04-empty-nan-counts.csv"
    options = {"format": "table", "map": mapped, "time_unit": "s", "on_bad_row": "skip"}
    rows = made(path, "length_stats", **options)["length_stats"]
    output = next(row for row in rows if row["metric"] == "output")
    assert (output["n"], output["unknown"], output["sum"], output["max"]) == (3, 1, 18, 10)
    assert output["p50"] == 8


@needs_data
def test_mooncake_arrivals_are_batched() -> None:
    found = made(DATA / "mooncake_conversation.jsonl", "arrival_stats", "limits")
    assert found["arrival_stats"][0]["distinct_timestamps"] == 1180
    assert found["arrival_stats"][0]["requests"] == 12_031
    (batched,) = [row for row in found["limits"] if row["view"] == "arrivals"]
    assert batched["because"].startswith("12,031 requests share 1,180 distinct arrival times, 3 s apart")


@needs_data
@pytest.mark.parametrize(("name", "requests"), [("azure2023_code", 8_819), ("azure2023_conv", 19_366)])
def test_azure_sizes(name: str, requests: int) -> None:
    assert made(DATA / f"{name}.csv", "facts")["facts"][0]["requests"] == requests
