"""A small saved result in which every figure has something to show; values are made by hand.

240 requests over 40 minutes in two types, one of which has a name that tries to break the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from servescope.report.saved import Saved, saved_of
from servescope.result import Table, write_tables

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = '</script><img src="http://example.invalid/x" onerror="window.broken=1">{{7*7}}&amp;\u2028'
TYPES = {"*": 6, "text": 4, HOSTILE: 2}  # requests in every window of 10 s, halved every other minute
SPAN_S = 2400


def _rate() -> list[dict[str, Any]]:
    rows = []
    for name, count in TYPES.items():
        for window_s in (10, 300):
            for start in range(0, SPAN_S, window_s):
                requests = sum(count // (1 + (s // 60) % 2) for s in range(start, start + window_s, 10))
                rows.append(
                    {
                        "request_type": name,
                        "window_s": float(window_s),
                        "start_s": float(start),
                        "requests": requests,
                        "input_tokens": requests * 1000,
                        "output_tokens": requests * 50,
                        "complete": start + window_s < SPAN_S,
                    }
                )
    return rows


def _type_summary() -> list[dict[str, Any]]:
    rows = []
    for name, count in TYPES.items():
        rows.append(
            {
                "request_type": name,
                "requests": 180 * count,
                "requests_per_s": 0.075 * count,
                "peak_10s_per_s": 0.1 * count,
                "mean_300s_min_per_s": 0.07 * count,
                "mean_300s_max_per_s": 0.08 * count,
                "peak_to_mean": 4 / 3,
                "iat_p50_s": 2.0,
                "iat_cv": 1.5,
                "input_p50": 900.0,
                "input_p99": 4000.0,
                "output_p50": 40.0,
                "output_p99": 300.0,
                "input_tokens_per_s": 75.0 * count,
                "output_tokens_per_s": 3.75 * count,
                "multi_turn_fraction": 0.5,
                "turns_max": 3,
            }
        )
    return rows


def _bins(counts: dict[int, int], **key: object) -> list[dict[str, Any]]:
    """Rows of a log-binned histogram: bin number (100 a decade) -> count."""
    return [
        {**key, "bin_low": 10 ** (k / 100), "bin_high": 10 ** ((k + 1) / 100), "count": n}
        for k, n in counts.items()
    ]


def _reuse() -> dict[str, list[dict[str, Any]]]:
    block = {"block_references": 1000, "seen_blocks": 500, "block_reuse_ratio": 0.5, "prefix_blocks": 400}
    block |= {"prefix_reuse_ratio": 0.4, "child_requests": 90, "child_blocks": 600}
    block |= {"parent_blocks_matched": 390, "parent_match_ratio": 0.65}
    half = {"requests": 540, "block_references": 500, "prefix_blocks": 250, "prefix_reuse_ratio": 0.5}
    half |= {"input_tokens": 8000, "prefix_tokens": 4000, "token_prefix_reuse_ratio": 0.5}
    half |= {"same_session_blocks": 150, "cross_session_blocks": 100}
    half |= {"same_session_tokens": 2400, "cross_session_tokens": 1600}
    whole = {
        **half,
        "requests": 1080,
        "block_references": 1000,
        "prefix_blocks": 400,
        "prefix_reuse_ratio": 0.4,
    }
    whole |= {"input_tokens": 16000, "prefix_tokens": 6400, "token_prefix_reuse_ratio": 0.4}
    whole |= {"same_session_tokens": 4800, "cross_session_tokens": 1600}
    places = [(0, 0, 300), (1, 1, 240), (2, 3, 200), (4, 7, 160), (8, 15, 100)]
    return {
        "block_reuse": [{"request_type": name, **block} for name in TYPES],
        "reuse_ceiling": [{"part": "whole", **whole}, {"part": "last_half", **half}],
        "reuse_position": [
            {
                "request_type": "*",
                "position_low": low,
                "position_high": high,
                "block_references": n,
                "seen_blocks": n // 2,
                "prefix_blocks": n // 2 - low,
            }
            for low, high, n in places
        ],
        "hit_rates": [{"name": "requests_with_any_hit", "numerator": 60.0, "denominator": 120, "value": 0.5}],
    }


def _sessions() -> dict[str, list[dict[str, Any]]]:
    summary = {"sessions": 100, "requests": 190, "requests_without_session": 50, "turns_mean": 1.9}
    summary |= {"turns_median": 2.0, "turns_p90": 3.0, "turns_p99": 3.0, "turns_max": 3}
    summary |= {"single_turn_sessions": 40, "single_turn_fraction": 0.4, "cut_at_start_sessions": 5}
    growth = {"requests": 190, "first_turns": 100, "follow_ups": 90, "input_tokens": 100_000}
    growth |= {"new_tokens": 25_000, "new_known": 80, "shortened": 10, "unknown": 0}
    return {
        "session_summary": [summary],
        "turns": [{"turns": 1, "sessions": 40}, {"turns": 2, "sessions": 30}, {"turns": 3, "sessions": 30}],
        "turn_gap_stats": [
            {
                "metric": "think_time",
                "follow_ups": 90,
                "n": 80,
                "overlapping": 10,
                "unknown": 0,
                "p50_s": 10.1,
            },
            {"metric": "start_gap", "follow_ups": 90, "n": 90, "overlapping": 0, "unknown": 0, "p50_s": 20.2},
        ],
        "think_time": _bins({50: 20, 100: 40, 200: 20}),
        "start_gap": _bins({80: 20, 130: 50, 210: 20}),
        "growth": [growth],
        "new_tokens": _bins({150: 30, 200: 30, 280: 20}),
    }


def _long() -> dict[str, list[dict[str, Any]]]:
    """Tables of a trace of 15 days, so that days, weeks and months have figures too."""
    groups = ("chat", "completion")
    hours = range(15 * 24)
    load = {"completed_requests": 0, "it_sum_completed": 0, "ot_sum_completed": 0}
    models = [f"model {i}" for i in range(11)] + [HOSTILE]
    return {
        "load_hour": [
            {"hour": h, "endpoint_group": g, "requests": 10 + (h % 24) * (1 + i), **load}
            for h in hours
            for i, g in enumerate(groups)
        ],
        "model_day": [
            {"model": m, "day": d, "requests": 100 // (i + 1) + d, "it_sum": 1, "ot_sum": 1}
            for d in range(15)
            for i, m in enumerate(models)
        ],
        "month_shape": [
            row
            for month in (1, 2, 3)
            for metric, k in (("it", 300), ("ot", 150))
            for row in _bins({k + month * 4: 10, k + 20: 20, k + 60: 10}, month=month, metric=metric)
        ],
        "value_hist": [
            *_bins({-30: 10, 0: 30, 30: 10}, metric="ttft", series="global"),
            *_bins({50: 10, 90: 30, 130: 10}, metric="decode", series="global"),
            *_bins({55: 10, 95: 30, 133: 10}, metric="e2e", series="global"),
            {"metric": "hit", "series": "global", "bin_low": 0.0, "bin_high": 0.0, "count": 30},
            {"metric": "hit", "series": "global", "bin_low": 0.7, "bin_high": 0.701, "count": 10},
            {"metric": "hit", "series": "global", "bin_low": 1.0, "bin_high": 1.0, "count": 10},
        ],
    }


def _shares() -> dict[str, list[dict[str, Any]]]:
    users = [
        (1, HOSTILE, 540),
        (2, "u2", 270),
        (3, "u3", 108),
        (None, "(other users)", 162),
        (None, "(all)", 1080),
    ]
    return {
        "type_share": [
            {"request_type": "text", "requests": 720, "request_share": 2 / 3, "input_share": 2 / 3},
            {"request_type": HOSTILE, "requests": 360, "request_share": 1 / 3, "input_share": 1 / 3},
        ],
        "user_share": [
            {"rank": r, "user": u, "requests": n, "request_share": n / 1080, "input_share": n / 1080}
            for r, u, n in users
        ],
        "limits": [
            {"view": "load", "limit": "no daily rhythm", "because": "the trace covers 40 minutes"},
            {"view": "service", "limit": f"nothing on what {HOSTILE} is", "because": "it is a name"},
        ],
    }


def tables() -> dict[str, Table]:
    """Every table that the report can draw from."""
    facts = {"requests": 1080, "span_s": 2399.5, "models": 12, "users": 9, "instances": None, "sessions": 100}
    facts |= {"input_tokens": 1_080_000, "output_tokens": 54_000, "cached_tokens": None}
    facts |= {"block_tokens": 16, "block_references": 1000, "distinct_blocks": 500}
    arrivals = {"request_type": "*", "requests": 1080, "span_s": 2399.5, "distinct_timestamps": 1000}
    lengths = [
        row
        for name in TYPES
        for metric, k in (("input", 250), ("output", 120))
        for row in _bins({k: 40, k + 50: 30, k + 100: 20, k + 150: 10}, request_type=name, metric=metric)
    ]
    rows = {"facts": [facts], "rate": _rate(), "type_summary": _type_summary(), "length_ccdf": lengths}
    rows |= {"arrival_stats": [arrivals], **_reuse(), **_sessions(), **_long(), **_shares()}
    return {
        name: Table(name, pa.Table.from_pylist(part), f"What a row of {name} is.")
        for name, part in rows.items()
    }


def document() -> dict[str, Any]:
    """The JSON document beside the tables, without their rows."""
    source = {"name": f"/data/{HOSTILE}.jsonl", "bytes": 12345, "sha256": "ab" * 32, "covers": "file"}
    meta = {"format": "bailian", "sources": [source], "decisions": ["timestamp is in s", HOSTILE]}
    meta |= {"origin": {"kind": "relative", "first_ns": 0}, "block_tokens": 16, "chained": True}
    meta |= {"columns": ["arrival_us", "request_type", "session_id", "parent_id", "user", "block_ids"]}
    ledger = {
        "read": 1100,
        "kept": 1080,
        "dropped": {"bad_time": 15, "no_number": 5},
        "repaired": {"sorted": 2},
    }
    return {
        "command": "report",
        "version": "0",
        "ledger": ledger,
        "notes": [HOSTILE],
        "inputs": {},
        "meta": meta,
    }


def saved(*, without: tuple[str, ...] = (), **replaced: list[dict[str, Any]]) -> Saved:
    """The sample in memory, with some tables left out and the rows of others replaced."""
    found = {name: table for name, table in tables().items() if name not in without}
    found |= {name: Table(name, pa.Table.from_pylist(rows)) for name, rows in replaced.items()}
    return saved_of(found, document())


def write(folder: Path) -> Path:
    """Write the sample as a finished run leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(tables(), folder / "tables")
    (folder / "report.json").write_bytes(msgspec.json.encode(document()))
    return folder
