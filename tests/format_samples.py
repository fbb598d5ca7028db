"""A few good rows of every format: what contract tests and the fuzz test start from."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from servescope import api

LOGS = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class FormatSample:
    """One source and how to read it.

    format   name in `formats.FORMATS`
    path     file or folder
    options  fields of `ReadOptions`
    reads    whether it can be read as a trace (a ServeGen pool cannot)
    """

    format: str
    path: Path
    options: dict[str, Any] = field(default_factory=dict)
    reads: bool = True


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def mooncake_rows() -> bytes:
    """Mooncake lines."""
    return _lines(
        [
            {"timestamp": 100 * i, "input_length": 600 + i, "output_length": i, "hash_ids": [i % 3, 10 + i]}
            for i in range(12)
        ]
    )


def bailian_rows() -> bytes:
    """Bailian lines with parents."""
    rows = []
    for i in range(12):
        parent = i - 2 if i % 3 == 2 else -1
        rows.append(
            {
                "chat_id": 100 + i,
                "parent_chat_id": parent + 100 if parent >= 0 else -1,
                "timestamp": i / 4,
                "input_length": 33 + i % 5,
                "output_length": 7,
                "type": ("text", "image")[i % 2],
                "turn": 2 if parent >= 0 else 1,
                "hash_ids": [1, 2 + i % 2, 50 + i],
            }
        )
    return _lines(rows)


def chutes_table() -> pa.Table:
    """A small Chutes table."""
    times = [1_000_000 * i for i in range(12)]
    stamp = pa.timestamp("us")
    return pa.table(
        {
            "invocation_id": list(range(12)),
            "function_name": ["chat", "chat_stream", "completion"] * 4,
            "chute_id": ["m1", "m2"] * 6,
            "user_id": ["u1", "u2", "u3"] * 4,
            "rehash_round": [0, 1] * 6,
            "instance_id": ["i1", None] * 6,
            "started_at": pa.array(times, stamp),
            "completed_at": pa.array([time + 500_000 for time in times], stamp),
            "it": list(range(12)),
            "ot": [1] * 12,
            "ct": pa.array([None, 3] * 6, pa.int64()),
            "ttft": [0.5] * 12,
        }
    )


def sharegpt_items() -> bytes:
    """A ShareGPT array."""
    talk = [
        ("human", "What is a prefix?"),
        ("gpt", "A beginning."),
        ("human", "Of what?"),
        ("gpt", "Of a text."),
    ]
    turns = [{"from": who, "value": text} for who, text in talk]
    return json.dumps([{"id": f"c{i}", "conversations": turns[: 2 + 2 * (i % 2)]} for i in range(6)]).encode()


AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + b"".join(
    b"2023-11-16 18:17:%02d.9799600,%d,%d\r\n" % (i, 100 + i, 10 + i) for i in range(12)
)
BURSTGPT = (
    b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    + b"".join(
        b"%d,s%d,0.5,GPT-4,%d,%d,%d,API log\n" % (i, i % 3, 20 + i, i % 4, 20 + i + i % 4) for i in range(12)
    )
)
TABLE = b"when,prompt,answer,who\n" + b"".join(
    b"%d,%d,%d,user %d\n" % (1000 + i, 9 + i, i, i % 2) for i in range(12)
)
TABLE_MAP = {"arrival": "when", "input_tokens": "prompt", "output_tokens": "answer", "user": "who"}


def format_samples(folder: Path) -> list[FormatSample]:
    """Write a sample of every format into `folder`, compressed ones too."""

    def put(name: str, data: bytes) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    mooncake = mooncake_rows()
    objects = b"".join(struct.pack("<IQIq", i, i % 4, 100 + i, -1) for i in range(12))
    pq.write_table(chutes_table(), folder / "chutes.parquet", row_group_size=5)
    table = {"map": TABLE_MAP, "time_unit": "ms"}
    samples = [
        FormatSample("azure", put("azure.csv", AZURE)),
        FormatSample("bailian", put("bailian.jsonl", bailian_rows())),
        FormatSample("burstgpt", put("burstgpt.csv", BURSTGPT)),
        FormatSample("chutes", folder / "chutes.parquet"),
        FormatSample("mooncake", put("mooncake.jsonl", mooncake)),
        FormatSample("mooncake", put("mooncake.jsonl.gz", gzip.compress(mooncake, mtime=0))),
        FormatSample("mooncake", put("mooncake.jsonl.bz2", bz2.compress(mooncake))),
        FormatSample(
            "mooncake", put("mooncake.jsonl.zst", pa.Codec("zstd").compress(mooncake, asbytes=True))
        ),
        FormatSample("oracle_general", put("objects.bin", objects), {"format": "oracle_general"}),
        FormatSample("sharegpt", put("sharegpt.json", sharegpt_items()), {"chars_per_token": 4.0}),
        FormatSample("table", put("table.csv", TABLE), table),
        FormatSample("servegen", _pool(folder), reads=False),
    ]
    samples += [
        FormatSample(name, Path(shutil.copy(LOGS / file, folder)), {"input_includes_cached": True})
        for name, file in (
            ("freeinference", "freeinference.jsonl"),
            ("litellm", "litellm_spend.jsonl"),
            ("litellm", "litellm_payloads.jsonl"),
            ("openai_log", "openai_log.jsonl"),
            ("otlp", "otlp_lines.jsonl"),
        )
    ]
    api.convert(folder / "bailian.jsonl", out=folder / "canonical.parquet")
    return [*samples, FormatSample("canonical", folder / "canonical.parquet")]


def _pool(folder: Path) -> Path:
    pool = folder / "pool"
    pool.mkdir()
    (pool / "chunk-0-trace.csv").write_text("0,1.5,1.1,Gamma,0.9,0.7\n600,2.5,1.2,Gamma,0.8,0.6\n")
    data = {"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{5: 1.0}"}}
    (pool / "chunk-0-dataset.json").write_text(json.dumps(data))
    return pool
