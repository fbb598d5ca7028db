"""`servescope sessions` from the command line, on a made trace of the study's format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from benchmarks.make_trace import Shape, make

import servescope as ss
from servescope.errors import UsageError
from tests.reference.reconstruction import chains, takes_part
from tests.traces import build, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Servescope = Callable[..., Any]


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 requests over 100 days: users are renamed on day 90."""
    path = tmp_path_factory.mktemp("year") / "year.parquet"
    make(path, Shape(rows=6_000, models=4, users=30, days=100))
    return path


def test_the_json_document_has_the_summary_of_plain_python(servescope: Servescope, year: Path) -> None:
    done = servescope("sessions", year, "--json", "--threads", 2)
    assert done.code == 0
    tables = json.loads(done.out)["tables"]
    rows = [
        row for row in rows_of(ss.read(year)) if takes_part(row, {"user", "model", "instance", "endpoint"})
    ]
    links = chains(rows)
    summary = tables["summary"][0]
    assert summary["requests"] == len(rows) < 6_000
    assert summary["linked_turns"] == sum(link["parent"] >= 0 for link in links.values()) > 1_000
    assert summary["sessions"] == sum(link["parent"] < 0 for link in links.values())
    assert summary["prefix_tokens"] == sum(link["prefix_tokens"] for link in links.values())
    assert sum(row["requests"] for row in tables["session_rows"]) == 6_000
    assert any("renames" in row["because"] for row in tables["limits"])


def test_options_reach_the_rule(servescope: Servescope, year: Path) -> None:
    def summary(*options: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(servescope("sessions", year, "--json", *options).out)["tables"]
        return dict(found["summary"][0])

    whole = summary()
    assert summary("--look-back", 1)["linked_turns"] < whole["linked_turns"]
    assert summary("--max-gap", 60)["linked_turns"] < whole["linked_turns"]
    assert summary("--parent-completed")["linked_turns"] < whole["linked_turns"]
    assert summary("--unique")["linked_turns"] <= whole["linked_turns"]
    assert summary("--window", "10:20.5")["requests"] < whole["requests"]
    model = ss.read(year).names("model")[0]
    assert 0 < summary("--model", model)["requests"] < whole["requests"]


def test_the_file_and_the_tables_are_written(servescope: Servescope, year: Path, tmp_path: Path) -> None:
    out, tables = tmp_path / "sessions.parquet", tmp_path / "tables"
    done = servescope("sessions", year, "-o", out, "--tables", tables)
    assert done.code == 0 and "linked_turns" in done.out
    assert pq.read_metadata(out).num_rows == 6_000
    assert {path.stem for path in tables.iterdir()} >= {"summary", "prompt_growth", "think_time"}
    again = json.loads(servescope("sessions", out, "--json").out)
    held = pq.read_table(tables / "summary.parquet").to_pylist()
    assert again["tables"]["summary"] == held  # now they are stated
    assert any("rebuilt" in text for text in again["inputs"]["decisions"])
    assert servescope("check", out).code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--model", "none"), 'unknown model "none"'),
        (("--window", "7:3"), "holds no time"),
        (("--window", "soon"), "FROM:TO"),
        (("--engine", "quantum"), 'unknown engine "quantum"'),
        (("--rule", "stated"), "Use --rule paper"),
        (("--rule", "blocks"), "block ids"),
        (("--against", "stated"), "has none"),
    ],
)
def test_wrong_usage_is_one_message(
    servescope: Servescope, year: Path, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    done = servescope("sessions", year, "-o", tmp_path / "out.parquet", *options)
    assert done.code == 2 and done.out == ""
    assert says in done.err and "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_trace_without_counts_is_refused_with_a_remedy(servescope: Servescope, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("at,prompt\n0,5\n1,9\n")
    done = servescope(
        "sessions", path, "--map", "arrival=at", "--map", "input_tokens=prompt", "--time-unit", "s"
    )
    assert done.code == 2 and "no output_tokens" in done.err and "--map" in done.err


def test_tables_never_replace_parquet_files_of_somebody_else(tmp_path: Path) -> None:
    held = {"arrival_us": [0, 5], "input_tokens": [5, 9], "output_tokens": [1, 1], "user": ["a", "a"]}
    ss.sessions(build(held), tables=tmp_path / "own")
    known = build({**held, "parent_id": [None, 0], "session_id": [0, 0], "turn": [1, 2]})
    for _ in range(2):  # what it wrote itself may be replaced
        ss.sessions(known, tables=tmp_path / "own", against="stated")
    assert (tmp_path / "own" / "accuracy.parquet").is_file()
    other = tmp_path / "other"
    other.mkdir()
    (other / "year.parquet").write_bytes(b"not ours")
    with pytest.raises(UsageError, match=r"year\.parquet"):
        ss.sessions(known, tables=other)
    assert (other / "year.parquet").read_bytes() == b"not ours"
