"""The commands cache and reproduce: what they print, write and refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from servescope.trace_write import write_canonical
from tests.cache.sessions import growing_trace
from tests.shared import CASES, needs_cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]

OBJECTS = ("--map", "session_id=object_id", "--map", "input_tokens=size_tokens", "--map", "arrival=t")


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A canonical file of growing conversations."""
    path = tmp_path / "grown.parquet"
    write_canonical(growing_trace(300), path)
    return path


def tables(done: Finished) -> dict[str, list[dict[str, Any]]]:
    assert done.code == 0, done.err
    return json.loads(done.out)["tables"]  # type: ignore[no-any-return]


@needs_cases
def test_case_36_an_object_grows_and_shrinks_on_a_hit(servescope: Call) -> None:
    case = CASES / "36-size-grows.csv"
    own = ("--unit", "session", "--policy", "lru", "--capacity", "10tokens", "--json")
    (row,) = tables(servescope("cache", case, "--time-unit", "s", *OBJECTS, *own))["cache"]
    assert (row["requests"], row["request_hits"]) == (6, 3)
    assert (row["input_tokens"], row["hit_tokens"], row["peak_tokens"]) == (31, 12, 10)
    assert row["request_hit_ratio"] == 3 / 6 and row["token_hit_ratio"] == 12 / 31


def test_the_document_says_what_shaped_it(servescope: Call, grown: Path) -> None:
    own = ("--policy", "lru,fifo", "--policy", "bound", "--capacity", "2%", "--capacity", "500tokens")
    done = servescope(
        "cache", grown, *own, "--credit", "prompt", "--warmup", "0.5", "--resamples", 20, "--json"
    )
    document = json.loads(done.out)
    assert document["command"] == "cache"
    asked = document["inputs"]
    assert asked["unit"] == "session" and asked["credit"] == "prompt" and asked["warmup"] == 0.5
    assert asked["seed"] == 10 and asked["policies"] == ["lru,fifo", "bound"]
    rows = document["tables"]["cache"]
    assert [row["policy"] for row in rows] == ["lru", "lru", "fifo", "fifo", "bound", "bound"]
    assert {row["requests"] for row in rows} == {150}
    assert {row["credit"] for row in rows} == {"prompt"}
    pairs = {(row["policy_a"], row["policy_b"]) for row in document["tables"]["policy_differences"]}
    assert pairs == {("fifo", "lru")}


def test_the_two_credits_differ_in_hit_tokens_alone(servescope: Call, grown: Path) -> None:
    found = {
        credit: tables(
            servescope("cache", grown, "--policy", "lru", "--capacity", "10%", "--credit", credit, "--json")
        )["cache"][0]
        for credit in ("prefix", "prompt")
    }
    differing = {name for name in found["prefix"] if found["prefix"][name] != found["prompt"][name]}
    assert differing - {"seconds"} == {"hit_tokens", "token_hit_ratio", "credit"}
    assert found["prefix"]["hit_tokens"] < found["prompt"]["hit_tokens"]


def test_people_get_findings_and_a_grid_with_ties(servescope: Call, grown: Path) -> None:
    done = servescope("cache", grown, "--policy", "lru,fifo", "--capacity", "1%,90%", "--resamples", 30)
    assert done.code == 0, done.err
    assert "Workload: 300 requests of" in done.out
    assert "token hit ratio (= ties with lru)" in done.out
    header = next(line for line in done.out.splitlines() if line.startswith("tokens"))
    assert header.split() == ["tokens", "lru", "fifo"]
    assert "%=" in done.out


def test_a_folder_holds_tables_figures_and_a_page_that_can_be_drawn_again(
    servescope: Call, grown: Path, tmp_path: Path
) -> None:
    out = tmp_path / "swept"
    own = ("--policy", "lru,fifo,bound", "--capacity", "1%,5%,50%", "--curve", "--resamples", 20)
    done = servescope("cache", grown, *own, "-o", out)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"{out}/report.html"
    assert {path.stem for path in (out / "tables").iterdir()} == {
        "cache", "workload", "policy_differences", "curve", "limits",
    }  # fmt: skip
    assert {path.stem for path in (out / "figures").iterdir()} == {
        "token_hit_ratio", "request_hit_ratio", "bound_distance", "lru_curve",
    }  # fmt: skip
    assert pq.read_table(out / "tables" / "cache.parquet").num_rows == 9
    page = (out / "report.html").read_text()
    assert ">Findings<" in page and "Token hit ratio" in page and "Figure not drawn" not in page
    again = servescope("report", "--from", out)
    assert again.code == 0, again.err
    assert (out / "report.html").read_text() == page


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--policy", "lrru"), 2, "Did you mean lru?"),
        (("--capacity", "100"), 2, "has no unit"),
        (("--capacity", "1GiB"), 2, "--bytes-per-token"),
        (("--warmup", "1"), 2, "--warmup"),
        (("--model", "m7"), 2, "Its models: m"),
        (("--unit", "sesion"), 2, 'unknown unit "sesion"'),
        (("--rule", "stated"), 2, "states none"),
        (("--window", "5:4"), 2, "--window"),
        (("--window", "4:5"), 3, "outside the window (outside_window)"),
        (("--engine", "rey"), 2, "unknown engine"),
        (("--preset", "chutes"), 2, "Name the model to put in their place with --model"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(
    servescope: Call, grown: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = servescope("cache", grown, *arguments)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_wrong_text_fails_before_the_trace_is_read(servescope: Call, tmp_path: Path) -> None:
    done = servescope("cache", tmp_path / "absent.parquet", "--capacity", "ten")
    assert done.code == 2 and "ten" in done.err


def test_reproduce_sets_published_rows_beside_ours(servescope: Call, grown: Path) -> None:
    own = ("--policy", "lru,fifo", "--model", "m1", "--resamples", 5)
    out = grown.with_name("reproduced")
    found = tables(servescope("reproduce", "chutes", grown, *own, "-o", out, "--json"))
    names = {path.stem for path in (out / "figures").iterdir()}
    assert {"reproduced_minimax_m25", "reproduced_deepseek_v32", "token_hit_ratio"} <= names
    assert len(found["reproduce"]) == 180
    assert {row["model"] for row in found["reproduce"]} == {"m1"}
    done = servescope("reproduce", "chutes", grown, *own)
    assert "180 published rows, 40 run here" in done.out
    assert "cause of 20 rows: the trace is not the study's" in done.out.replace("\n  ", " ")
    lacking = servescope("reproduce", "chutes", grown)
    assert lacking.code == 2 and "Its models: m" in lacking.err
    unknown = servescope("reproduce", "chute", grown)
    assert unknown.code == 2 and "Did you mean chutes?" in unknown.err
