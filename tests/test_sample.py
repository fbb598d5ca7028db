"""The sample that ships in the package: made again, and shaped like the published slices."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

from servescope.api import SAMPLE

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture(scope="module")
def script() -> Any:
    sys.path.insert(0, str(SCRIPTS))
    try:
        import make_sample
    finally:
        sys.path.remove(str(SCRIPTS))
    return make_sample


@pytest.fixture(scope="module")
def by_kind(script: Any) -> dict[str, list[dict[str, Any]]]:
    kinds = defaultdict(list)
    for row in script.rows():
        kinds[row["type"]].append(row)
        kinds["*"].append(row)
    return kinds


def test_the_shipped_file_is_what_the_script_makes(script: Any) -> None:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE)), "zstd") as stream:
        assert stream.read() == script.text()
    assert SAMPLE.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("kind", "column", "published"),
    [
        ("text", "input_length", 790),
        ("search", "input_length", 5300),
        ("file", "input_length", 5700),
        ("image", "input_length", 369),
        ("image", "output_length", 69),
        ("api", "input_length", 589),
        ("api", "output_length", 37),
    ],
)
def test_medians_are_those_of_the_slices(
    by_kind: dict[str, list[dict[str, Any]]], kind: str, column: str, published: int
) -> None:
    assert median(row[column] for row in by_kind[kind]) == pytest.approx(published, rel=0.08)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("*", 0.67, 0.70), ("search", 0.86, 0.90), ("file", 0.84, 0.90), ("image", 0.06, 0.10)],
)
def test_children_share_as_much_with_their_parents(
    by_kind: dict[str, list[dict[str, Any]]], kind: str, low: float, high: float
) -> None:
    blocks = [row["hash_ids"] for row in by_kind["*"]]
    matched = referenced = 0
    for row in by_kind[kind]:
        if row["parent_chat_id"] >= 0:
            own, its = row["hash_ids"], blocks[row["parent_chat_id"]]
            shorter = min(len(own), len(its))
            matched += next((i for i in range(shorter) if own[i] != its[i]), shorter)
            referenced += len(row["hash_ids"])
    assert low <= matched / referenced <= high


def test_search_and_file_are_few_requests_and_half_of_the_tokens(
    by_kind: dict[str, list[dict[str, Any]]],
) -> None:
    both = by_kind["search"] + by_kind["file"]
    assert len(both) / len(by_kind["*"]) < 0.23
    tokens = sum(row["input_length"] for row in both)
    assert tokens / sum(row["input_length"] for row in by_kind["*"]) > 0.5


def test_api_requests_share_templates_but_have_no_sessions(by_kind: dict[str, list[dict[str, Any]]]) -> None:
    seen: set[int] = set()
    again = references = 0
    for row in by_kind["api"]:
        assert row["parent_chat_id"] == -1
        again += len(seen.intersection(row["hash_ids"]))
        references += len(row["hash_ids"])
        seen.update(row["hash_ids"])
    assert 0.5 < again / references < 0.65
