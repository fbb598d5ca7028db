"""The cases of block caches, and the same bytes for any number of threads, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from servescope.trace_write import write_canonical
from tests.cache.sessions import growing_trace
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]


def document(done: Finished) -> dict[str, Any]:
    assert done.code == 0, done.err
    return json.loads(done.out)  # type: ignore[no-any-return]


@needs_cases
def test_case_15_ids_of_64_bits(servescope: Call, tmp_path: Path) -> None:
    case = CASES / "15-hash64.jsonl"
    tables = document(servescope("cache", case, "--policy", "lru", "--capacity", "100%", "--json"))["tables"]
    (row,) = tables["cache"]
    assert (row["block_hits"], row["block_references"]) == (3, 10)
    assert tables["block_workload"][0]["distinct_blocks"] == row["capacity_blocks"] == 7
    for wrong in ("18446744073709551616", "-1", "1.5"):
        path = tmp_path / "wrong.jsonl"
        line = f'{{"timestamp": 5000, "input_length": 100, "output_length": 5, "hash_ids": [{wrong}]}}\n'
        path.write_text(case.read_text() + line)
        done = servescope("cache", path)
        assert (done.code, done.out) == (3, "")
        assert "wrong.jsonl:6" in done.err and "hash_ids" in done.err and wrong in done.err


@needs_cases
def test_case_16_ids_that_do_not_fit_the_length(servescope: Call) -> None:
    case = CASES / "16-hash-count.jsonl"
    done = servescope("cache", case)
    assert (done.code, done.out) == (3, "")
    assert (
        '16-hash-count.jsonl:3: field "hash_ids": 2 ids, 1 needed for 20 tokens at block size 512' in done.err
    )
    own = ("--policy", "lru", "--capacity", "100%", "--json")
    found = document(servescope("cache", case, "--on-bad-row", "skip", *own))
    assert (found["ledger"]["read"], found["ledger"]["kept"]) == (6, 3)
    assert [row["line"] for row in found["tables"]["rejects"]] == [3, 4, 6]


@needs_cases
def test_case_32_a_hole_in_a_prefix(servescope: Call) -> None:
    own = ("--policy", "lru,fifo", "--capacity", "3blocks", "--json")
    found = document(servescope("cache", CASES / "32-prefix-gap.jsonl", *own))
    rows = {row["policy"]: row for row in found["tables"]["cache"]}
    assert {name: row["block_hits"] for name, row in rows.items()} == {"lru": 2, "fifo": 0}
    assert {row["peak_tokens"] for row in rows.values()} == {3 * 16}
    assert any("drops the deepest block" in note for note in found["notes"])


@needs_cases
def test_case_33_every_rate_has_a_name_and_its_parts(servescope: Call) -> None:
    own = ("--policy", "lru", "--capacity", "100%", "--json")
    tables = document(servescope("cache", CASES / "33-hit-rate-names.jsonl", *own))["tables"]
    rates = {row["name"]: (row["numerator"], row["denominator"]) for row in tables["block_hit_rates"]}
    assert {(6, 11), (5, 8), (3036, 5136), (2560, 5136), (3, 5)} <= set(rates.values())
    (mean,) = (row for row in tables["block_hit_rates"] if "mean" in row["name"])
    assert mean["value"] == pytest.approx(13 / 30)
    assert all(0 <= row["value"] <= 1 for row in tables["block_hit_rates"])


def test_case_37_sizes_say_their_unit(servescope: Call, tmp_path: Path) -> None:
    path = tmp_path / "touches200.jsonl"
    rows = (
        {"chat_id": i + 1, "parent_chat_id": -1, "timestamp": float(i), "input_length": 16 * 20}
        | {"output_length": 1, "type": "text", "turn": 1, "hash_ids": list(range(20 * i, 20 * i + 20))}
        for i in range(10)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = "10%,110%,4096tokens,4100tokens,8blocks,2GiB,2GB,0blocks"
    own = ("--policy", "lru", "--capacity", sizes, "--bytes-per-token", 131072, "--json")
    found = document(servescope("cache", path, *own))
    held = [
        (row["capacity_blocks"], row["capacity_tokens"], row["capacity_bytes"])
        for row in found["tables"]["cache"]
    ]
    assert [blocks for blocks, _, _ in held] == [20, 220, 256, 8, 1024, 953, 0]
    assert all(tokens == 16 * blocks and taken == 131072 * tokens for blocks, tokens, taken in held)
    notes = "\n".join(found["notes"])
    assert "110% is larger than everything touched" in notes and "4 tokens left over" in notes
    assert "4096tokens and 4100tokens mean the same size" in notes and "2GB is 953 blocks" in notes
    for text in ("0.1", "100", "-1blocks", "1.5blocks", "ten"):
        done = servescope("cache", path, "--capacity", text)
        assert (done.code, done.out) == (2, "") and f'"{text}"' in done.err
    done = servescope("cache", path, "--capacity", "2GiB")
    assert done.code == 2 and "bytes of a token are not known" in done.err


@pytest.mark.parametrize("unit", ["session", "block"])
def test_the_same_bytes_for_any_number_of_threads(
    servescope: Call, tmp_path: Path, trace: Path, unit: str
) -> None:
    source = trace
    policies = "lru,fifo,s3fifo,workload_aware,belady_bypass"
    if unit == "session":
        source, policies = tmp_path / "grown.parquet", "lru,random,s3fifo,wtinylfu,belady,bound"
        write_canonical(growing_trace(300), source)
    own = ("--unit", unit, "--policy", policies, "--capacity", "5%,20%,60%", "--resamples", 50, "--curve")

    def tables(threads: int) -> str:
        found = document(servescope("cache", source, *own, "--threads", threads, "--json"))["tables"]
        for row in found["cache"]:
            assert row.pop("seconds") >= 0
        return json.dumps(found)

    one = tables(1)
    assert tables(2) == one
    assert tables(5) == one
