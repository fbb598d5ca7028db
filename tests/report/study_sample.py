"""A small saved result in which every figure of the study has something to show; made by hand.

Three models (one with a hostile name, one with an id alone), twelve users, 40 days, three months.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from servescope.report.saved import Saved, saved_of
from servescope.result import Table, write_tables
from tests.report import sample

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
TEE, PLAIN, BARE = "org/big-TEE", "org/big", "0df3133d-c477-56d2-b4db-f2093bb150a1"
MODELS = (TEE, PLAIN, sample.HOSTILE, BARE)
DAYS = 62
GROUPS = ("chat", "chat_stream", "completion", "completion_stream", "other")


def bins(counts: dict[int, int], **key: object) -> list[Row]:
    """Rows of a log-binned histogram: bin number (100 a decade) -> count."""
    return [
        {**key, "bin_low": 10 ** (k / 100), "bin_high": 10 ** ((k + 1) / 100), "count": n}
        for k, n in counts.items()
    ]


def ratios(counts: dict[int, int], **key: object) -> list[Row]:
    """Rows of a linear histogram: thousandths -> count; -1 is exactly 0, 1000 exactly 1."""
    rows = []
    for k, n in counts.items():
        low, high = {-1: (0.0, 0.0), 1000: (1.0, 1.0)}.get(k, (k / 1000, (k + 1) / 1000))
        rows.append({**key, "bin_low": low, "bin_high": high, "count": n})
    return rows


def _load() -> dict[str, list[Row]]:
    hours = range(DAYS * 24)
    load = {"completed_requests": 1, "it_sum_completed": 100, "ot_sum_completed": 10}
    return {
        "load_hour": [
            {"hour": h, "endpoint_group": g, "requests": 1 + at + h % 24, **load}
            for h in hours
            for at, g in enumerate(GROUPS)
        ],
        "model_day": [
            {"model": m, "day": d, "requests": 10 * (4 - at), "it_sum": 100, "ot_sum": 10}
            for d in range(DAYS)
            for at, m in enumerate(MODELS)
        ],
        "month_shape": [
            row
            for month in (1, 2, 3)
            for metric, k in (("it", 300), ("ot", 200))
            for row in bins(
                {k: 1, k + 20: 2, k + 40 + month: 4, k + 60: 2, k + 80: 1}, month=month, metric=metric
            )
        ],
    }


def _values() -> list[Row]:
    rows: list[Row] = []
    for series in ("global", TEE, sample.HOSTILE):
        for metric, k in (("it", 300), ("ot", 150), ("ratio", -150), ("e2e", 50)):
            rows += bins({k: 10, k + 50: 20, k + 100: 10}, metric=metric, series=series)
        for metric in ("prefill_frac", "hit_pos"):
            rows += ratios({-1: 4, 500: 2, 900: 2, 1000: 2}, metric=metric, series=series)
    for series, zeros in (("global", 5), ("lt1k", 2), ("ge8k", 8)):
        rows += ratios({-1: zeros, 999: 10 - zeros}, metric="hit", series=series)
    return rows


def _cells() -> dict[str, list[Row]]:
    shapes = [
        row
        for metric in ("duration", "ttft")
        for it, ot, n in ((0, 0, 60), (2000, 0, 50), (2000, 200, 49), (32000, 8000, 50), (34000, 0, 500))
        for row in bins({0: n - 20, 100: 20}, it_low=it, ot_low=ot, metric=metric)
    ]
    hits = [
        row
        for it, tenth, n in ((0, 0.0, 200), (0, 1.0, 300), (2000, 0.9, 199), (34000, 0.0, 900))
        for row in bins({-100: n - 1, 0: 1}, it_low=it, hit_tenth=tenth)
    ]
    return {"shape_cell": shapes, "hit_cell": hits}


def _keys() -> dict[str, list[Row]]:
    users = [
        {
            "user": f"u{i}@0",
            "cohort": 1 + i % 2,
            "n_shape": 11 if i < 10 else 10,
            "it_median": 100.0 * (i + 1),
            "ot_median": 10.0 * (i + 1),
            "n_hit": 20,
            "hit_sum": 20 * i / 12,
        }
        for i in range(12)
    ]
    models = [
        {
            "model": m,
            "n_shape": 1,
            "it_median": 10.0 ** (2 + at),
            "ot_median": 50.0,
            "n_hit": 101,
            "hit_sum": 50.5,
        }
        for at, m in enumerate(MODELS)
    ]
    pairs = [
        {"user": f"u{i}@0", "model": m, "requests": 6 + 100 * i}
        for i in range(12)
        for at, m in enumerate(MODELS)
        if i % (at + 1) == 0
    ]
    return {"user_stats": users, "model_stats": models, "pair_count": pairs}


def _gaps() -> dict[str, list[Row]]:
    low, high = 0.1, 0.1122
    hour = {"gap_mean": 1.0, "gap_M2": 1.0}
    return {
        "model_gap": [
            {"model": m, "n_gaps": n, "gap_mean": 1.0, "gap_M2": 2.0}
            for m, n in zip(MODELS, (500, 100, 99, 7), strict=True)
        ],
        "model_gap_pair": [
            {"model": m, "previous_bin_low": a, "previous_bin_high": a + 1, "bin_low": b, "bin_high": b + 1,
             "count": n}
            for m, a, b, n in (
                (TEE, 1.0, 1.0, 5), (TEE, 2.0, 2.0, 5), (TEE, 1.0, 2.0, 1),
                (PLAIN, 1.0, 2.0, 5), (PLAIN, 2.0, 1.0, 5),
            )
        ],
        "model_hour": [
            {"model": m, "hour": h, "n_requests": n, "n_gaps": n - 1, "CV": cv, **hour}
            for m, n, cv in ((TEE, 10, 2.0), (PLAIN, 30, 0.5), (sample.HOSTILE, 9, 3.0))
            for h in range(5)
        ]
        + [{"model": TEE, "hour": 9, "n_requests": 20, "n_gaps": 4, "CV": None, **hour}],
        "user_month_gap": [
            {"user": f"u{i}@0", "month": month, "n_gaps": 10, "p10": 1.0 * (i + 1), "p25": 2.0 * (i + 1),
             "p50": 4.0 * (i + 1), "p75": 8.0 * (i + 1), "p90": 16.0 * (i + 1)}
            for month in (1, 2)
            for i in range(3)
        ],
        "pair_gap": [
            {"user": f"u{i}@0", "model": m, "n_gaps": 10, "p50": p}
            for i in range(5)
            for m, p in ((TEE, 1.0 + i), (sample.HOSTILE, 100.0), (PLAIN, None))
        ],
        "pair_gap_hist": [{"bin_low": low, "bin_high": high, "count": 1}, *bins({50: 6, 250: 2, 450: 1})],
    }  # fmt: skip


def _rasters() -> dict[str, list[Row]]:
    rows = []
    for kind, names in (("user", ("u0@0", "u1@0")), ("model", (TEE, PLAIN))):
        for at, name in enumerate(names):
            for i in range(6):
                other = {"user": "u9@0", "model": BARE, kind: name}
                rows.append(
                    {"kind": kind, "rank": 1 + 9 * at, **other, "started_us": i, "day": i / 2, "index": i % 3}
                )
    ranks = [
        {"kind": kind, "name": "x", "rank": rank, "requests": 60, "distinct": 3}
        for kind in ("user", "model")
        for rank in (1, 10)
    ]
    return {"raster_rows": rows, "window_rank": ranks}


def _balance() -> dict[str, list[Row]]:
    minutes = [
        {"model": TEE, "instance": f"i{at}", "minute": minute, "requests": 5 * (at + 1),
         "tokens": 100 * (at + 1), "cached": 10}
        for minute in range(60, 60 + 3 * 1440, 30)
        for at in range(3)
        if at < 2 or minute >= 1440
    ]  # fmt: skip
    loads = [
        row
        for metric in ("ttft", "decode")
        for load, tokens, n in ((100.0, 10.0, 30), (1000.0, 10.0, 29), (1000.0, 100.0, 100))
        for row in bins(
            {0: n - 5, 200: 5},
            model=TEE, metric=metric, load_low=load, load_high=load * 10**0.1, tokens_low=tokens,
            tokens_high=tokens * 10**0.1,
        )
    ]  # fmt: skip
    picks = [("u1@0", 2, "i0", 150, 1000, 400), ("u1@0", 2, "i1", 50, 1000, 600), ("u1@0", 2, None, 50, 0, 0)]
    picks += [("u2@0", 30, "i2", 200, 100, 90)]
    zoom = [
        {"model": TEE, "user": u, "hour": h, "instance": i, "n": n, "it_sum": it, "ct_sum": ct}
        for u, h, i, n, it, ct in picks
    ]
    return {"instance_minute": minutes, "load_latency_cell": loads, "user_hour_instance": zoom}


def tables() -> dict[str, Table]:
    """Every table that the study's figures read."""
    facts = [{"requests": 1000, "span_s": DAYS * 86400 - 10.0, "models": 4, "users": 12, "instances": 3,
              "input_tokens": 1000, "output_tokens": 100}]  # fmt: skip
    rows: dict[str, list[Row]] = {"facts": facts, "value_hist": _values(), **_load(), **_cells(), **_keys()}
    rows |= {**_gaps(), **_rasters(), **_balance()}
    return {name: Table(name, _coded(part), f"What a row of {name} is.") for name, part in rows.items()}


def _coded(rows: list[Row]) -> pa.Table:
    """The rows as a table whose names of users and models are codes, as the views write them."""
    data = pa.Table.from_pylist(rows)
    for name in {"user", "model", "instance"} & set(data.column_names):
        data = data.set_column(data.column_names.index(name), name, data[name].dictionary_encode())
    return data


def document(**inputs: object) -> Row:
    """The JSON document beside the tables, of a trace with a shifted calendar."""
    made = sample.document()
    made["meta"] |= {"origin": {"kind": "nominal", "first_ns": 0}, "columns": ["arrival_us", "user", "model"]}
    return {**made, "inputs": inputs}


def saved(*, without: tuple[str, ...] = (), inputs: Row | None = None, **replaced: list[Row]) -> Saved:
    """The sample in memory, with some tables left out and the rows of others replaced."""
    found = {name: table for name, table in tables().items() if name not in without}
    found |= {name: Table(name, _coded(rows)) for name, rows in replaced.items()}
    return saved_of(found, document(**(inputs or {})))


def write(folder: Path, **inputs: object) -> Path:
    """Write the sample, and the report's own beside it, as a finished run leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tables({**sample.tables(), **tables()}, folder / "tables")
    (folder / "report.json").write_bytes(msgspec.json.encode(document(**inputs)))
    return folder
