"""Tables of sessions against plain Python, the file of requests with sessions, and the published numbers."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import servescope as ss
from servescope.errors import DataError, UsageError
from servescope.sessions.find import find_sessions
from servescope.sessions.links import SessionOptions, session_links
from servescope.sessions.reconstruct import Running
from servescope.sessions.summary import Found, quantile, tables
from servescope.sessions.tally import LINKED, Tally
from servescope.trace import Origin, Trace
from tests.reference.reconstruction import chains, takes_part
from tests.sessions.test_reconstruct import drawn
from tests.shared import SHARED
from tests.traces import build, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.result import Result, Table

PUBLISHED = SHARED / "reference" / "chutes"
needs_published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the study is not beside the checkout")
EPOCH = datetime(1970, 1, 1)
PAPER = SessionOptions(rule="paper")


def found_tables(
    trace: Trace, options: SessionOptions = PAPER, **how: Any
) -> dict[str, list[dict[str, Any]]]:
    made, _ = find_sessions(trace, options, Running(threads=1, **how))
    return {table.name: table.rows() for table in made}


def in_bin(value: float, row: dict[str, Any]) -> bool:
    """Whether a value lies in a bin; below 0 the right edge belongs to it."""
    low, high = row["bin_low"], row["bin_high"]
    return bool(low == high == value or (low <= value < high if value >= 0 else low < value <= high))


def counted(values: list[float | None], rows: list[dict[str, Any]]) -> bool:
    """Whether the bins hold exactly these values."""
    known = [value for value in values if value is not None]
    if sum(row["turns"] for row in rows) != len(values):
        return False
    for row in rows:
        held = (
            len(values) - len(known) if row["bin_low"] is None else sum(in_bin(value, row) for value in known)
        )
        if held != row["turns"]:
            return False
    return True


def test_tables_count_what_plain_python_counts() -> None:
    for seed in range(60):
        trace = drawn(seed)
        made = found_tables(trace, buckets=1 + seed % 3, files=bool(seed % 2))
        rows = rows_of(trace)
        eligible = [row for row in rows if takes_part(row, set(trace.meta.columns))]
        links = chains(eligible)
        summary = made["summary"][0]
        lengths = Counter(link["session"] for link in links.values())
        linked = {own: link for own, link in links.items() if link["parent"] >= 0}
        assert summary["requests"] == len(eligible)
        assert summary["sessions"] == len(lengths)
        assert summary["linked_turns"] == len(linked)
        assert summary["prefix_tokens"] == sum(link["prefix_tokens"] for link in links.values())
        assert summary["input_tokens"] == sum(row["input_tokens"] for row in eligible)
        turns = sorted(lengths.values())
        for name, q in (("turns_median", 0.5), ("turns_p90", 0.9), ("turns_p99", 0.99)):
            assert summary[name] == (pytest.approx(np.quantile(turns, q)) if turns else None)
        assert {row["turns"]: row["sessions"] for row in made["session_turns"]} == Counter(turns)
        assert sum(row["requests"] for row in made["session_rows"]) == len(rows)
        several = Counter(link["candidates"] for link in linked.values())
        assert {row["candidates"]: row["turns"] for row in made["link_ambiguity"]} == several
        grown: dict[int, list[float | None]] = {}
        pauses: list[float | None] = []
        for own, link in linked.items():
            grown.setdefault(link["turn"], []).append(rows[own]["input_tokens"] - link["prefix_tokens"])
            end = rows[link["parent"]]["completed_us"]
            pauses.append(None if end is None else (rows[own]["arrival_us"] - end) / 1e6)
        assert counted(pauses, made["think_time"])
        assert {row["turn"] for row in made["prompt_growth"]} == set(grown)
        for turn, values in grown.items():
            assert counted(values, [row for row in made["prompt_growth"] if row["turn"] == turn])


def test_excluded_requests_are_counted_by_the_first_condition_that_fails() -> None:
    columns = {
        "arrival_us": [0, 1, 2, 3, 4, 5, 6, 7],
        "model": ["a", "b", None, "a", "a", "a", "a", "a"],
        "user": ["u", None, None, None, "u", "u", "u", "u"],
        "instance": ["i", "i", "i", "i", None, "i", "i", "i"],
        "endpoint": ["chat", "chat", "chat", "chat", "chat", "embed", "chat", None],
        "input_tokens": [1, 1, 1, 1, 1, 1, None, 1],
        "output_tokens": [1, 1, 1, 1, 1, 1, None, 1],
    }
    rows = found_tables(build(columns), SessionOptions(model="a"))["session_rows"]
    assert {row["rule"]: row["requests"] for row in rows} == {
        "eligible": 1,
        "other_model": 2,
        "no_user": 1,
        "no_instance": 1,
        "no_input_tokens": 1,
        "other_endpoint": 2,
    }


def test_limits_name_the_dominant_user_and_the_renaming() -> None:
    columns = {
        "arrival_us": list(range(10)),
        "user": ["u0@0"] * 9 + ["u1@0"],
        "input_tokens": [5] * 10,
        "output_tokens": [1] * 10,
    }
    trace = build(columns)
    because = [row["because"] for row in found_tables(trace)["limits"]]
    assert any("90.0% of the requests" in text for text in because)
    assert not any("renames" in text for text in because)
    chutes = build(columns)
    chutes = Trace(type(chutes.meta)(**{**_fields(chutes), "format": "chutes"}), chutes.parts)
    assert any("renames" in row["because"] for row in found_tables(chutes)["limits"])
    del columns["user"]
    assert any("no user" in row["because"] for row in found_tables(build(columns))["limits"])


def _fields(trace: Trace) -> dict[str, Any]:
    return {name: getattr(trace.meta, name) for name in trace.meta.__struct_fields__}


@pytest.mark.parametrize("files", [False, True])
def test_the_file_holds_all_requests_and_can_be_read_again(tmp_path: Path, files: bool) -> None:
    trace = drawn(11)
    links = session_links(trace, PAPER)
    out = tmp_path / "sessions.parquet"
    find_sessions(trace, PAPER, Running(threads=1, files=files, buckets=3, folder=tmp_path), out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.parquet"]
    held = pq.read_table(out).to_pylist()
    before = rows_of(trace)
    assert len(held) == trace.rows
    for row, own in zip(held, before, strict=True):
        at = own["request_id"]
        inside = bool(links.turn[at])
        assert row.pop("prefix_tokens") == (links.prefix_tokens[at] if inside else None)
        assert row["session_id"] == (links.session[at] if inside else None)
        assert row["turn"] == (links.turn[at] if inside else None)
        assert row["parent_id"] == (links.parent[at] if links.parent[at] >= 0 else None)
        assert {**row, "session_id": None, "parent_id": None, "turn": None} == own
    again = ss.read(out)
    assert again.has("session_id") and again.has("parent_id") and again.has("turn")
    assert ss.check(again)["checks"].data.num_rows > 0  # raises where it is not canonical
    stated = session_links(again)
    assert stated.rule == "stated"
    for name in ("session", "parent", "turn", "prefix_tokens"):
        assert np.array_equal(getattr(stated, name), getattr(links, name)), name


def test_the_file_is_the_same_for_any_threads_and_buckets(tmp_path: Path) -> None:
    trace = drawn(12)
    written = []
    for at, how in enumerate([{"threads": 1}, {"threads": 2, "buckets": 5}, {"buckets": 2, "files": True}]):
        out = tmp_path / f"{at}.parquet"
        find_sessions(trace, PAPER, Running(**how), out=out)
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]


def test_the_file_is_the_same_through_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    trace = drawn(12)
    find_sessions(trace, PAPER, Running(threads=1), out=tmp_path / "local.parquet")
    find_sessions(trace, PAPER, Running(threads=2, engine="ray", buckets=3), out=tmp_path / "ray.parquet")
    assert (tmp_path / "local.parquet").read_bytes() == (tmp_path / "ray.parquet").read_bytes()


def test_stated_sessions_keep_their_ids_and_get_the_prefix(tmp_path: Path) -> None:
    columns = {
        "arrival_us": [0, 1, 2, 3, 4],
        "session_id": [7, 7, None, 3, 3],
        "parent_id": [None, 0, None, None, 3],
        "turn": [1, 2, None, 1, 2],
        "input_tokens": [5, 20, 9, 0, 4],
        "output_tokens": [None, 3, 1, 0, 1],
    }
    out = tmp_path / "stated.parquet"
    result = ss.sessions(build(columns), out=out, threads=1)
    held = pq.read_table(out).to_pydict()
    assert held["session_id"] == columns["session_id"]
    assert held["parent_id"] == columns["parent_id"]
    assert held["prefix_tokens"] == [0, None, None, 0, 0]  # unknown where the parent's answer is
    summary = result["summary"].rows()[0]
    assert (summary["requests"], summary["sessions"], summary["linked_turns"]) == (4, 2, 2)
    assert {row["rule"]: row["requests"] for row in result["session_rows"].rows()} == {
        "eligible": 4,
        "no_session": 1,
    }
    unknown = [row for row in result["prompt_growth"].rows() if row["bin_low"] is None]
    assert [(row["turn"], row["turns"]) for row in unknown] == [(2, 1)]


def test_a_shortened_history_is_counted_below_zero() -> None:
    columns = {
        "arrival_us": [0, 5_000_000],
        "completed_us": [7_000_000, None],
        "session_id": [0, 0],
        "input_tokens": [100, 40],
        "output_tokens": [10, 1],
    }
    made = found_tables(build(columns), SessionOptions())
    (growth,) = made["prompt_growth"]
    assert growth["bin_low"] < -70 <= growth["bin_high"]
    (pause,) = made["think_time"]
    assert pause["bin_low"] < -2 <= pause["bin_high"]


def test_an_empty_trace_has_no_sessions(tmp_path: Path) -> None:
    trace = build({"arrival_us": [], "input_tokens": [], "output_tokens": []})
    result = ss.sessions(trace, out=tmp_path / "none.parquet")
    summary = result["summary"].rows()[0]
    assert (summary["requests"], summary["sessions"], summary["turns_mean"]) == (0, 0, None)
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_the_rule_is_measured_against_stated_sessions() -> None:
    columns = {
        "arrival_us": [0, 1_000_000],
        "session_id": [0, 0],
        "parent_id": [None, 0],
        "turn": [1, 2],
        "input_tokens": [100, 140],
        "output_tokens": [10, 1],
    }
    result = ss.sessions(build(columns), against="stated")
    assert result["summary"].rows()[0]["sessions"] == 1
    assert result["accuracy"].data.num_rows == 1
    with pytest.raises(UsageError, match="has none"):
        ss.sessions(drawn(1), against="stated")


def test_quantiles_are_those_of_all_values() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        counts = random.integers(1, 6, int(random.integers(1, 9)))
        values = np.sort(random.choice(50, len(counts), replace=False))
        q = float(random.random())
        assert quantile(values, counts, q) == pytest.approx(np.quantile(np.repeat(values, counts), q))


@needs_published
def test_published_chains_are_found() -> None:
    examples = json.loads((PUBLISHED / "session_examples.json").read_text())
    studies = [study for study in examples.values() if "chains" in study]
    assert len(studies) == 2
    for study in studies:
        turns = [
            (datetime.fromisoformat(turn["time"]), at, turn)
            for at, chain in enumerate(study["chains"])
            for turn in chain["turns"]
        ]
        turns.sort(key=lambda one: one[:2])
        first = turns[0][0]
        rows = {(at, turn["turn"]): row for row, (_, at, turn) in enumerate(turns)}
        columns = {
            "arrival_us": [round((moment - first).total_seconds() * 1e6) for moment, _, _ in turns],
            "user": [f"user of chain {at}" for _, at, _ in turns],
            "model": [study["model_name"]] * len(turns),
            "endpoint": ["chat_stream"] * len(turns),
            "instance": ["i"] * len(turns),
            "input_tokens": [turn["it"] for *_, turn in turns],
            "output_tokens": [turn["ot"] for *_, turn in turns],
        }
        links = session_links(build(columns, origin=Origin("nominal", 0)))
        for row, (_, at, turn) in enumerate(turns):
            parent = -1 if turn["parent"] is None else rows[at, turn["parent"]]
            assert links.parent[row] == parent
            assert links.session[row] == rows[at, 0]
            assert links.turn[row] == turn["turn"] + 1


@needs_published
def test_the_summary_has_the_study_s_numbers() -> None:
    whole = json.loads((PUBLISHED / "sessions.json").read_text())
    for study in (whole["minimax"], whole["v32"]):
        published = study["chain_length_distribution"]
        by_turn = [0, *published["turn_id_histogram"].values()]  # the last turns are not published
        tally = Tally(turns=np.array(by_turn))
        tally.sums[LINKED] = study["linked_turns"]
        trace = build({"arrival_us": [], "input_tokens": [], "output_tokens": []})
        made: dict[str, Table] = {
            t.name: t for t in tables(Found("paper", tally, tally.lengths(), {}), trace)
        }
        summary = made["summary"].rows()[0]
        assert summary["sessions"] == study["sessions"]
        assert summary["linked_turns"] == study["total_requests"] - study["sessions"]
        assert summary["single_turn_fraction"] == pytest.approx(published["length_0_fraction"])
        for name, key in (("turns_median", "median"), ("turns_p90", "p90"), ("turns_p99", "p99")):
            assert summary[name] == published[key] + 1  # it counts the links of a chain, not its requests


def test_the_result_says_how_it_was_made() -> None:
    result: Result = ss.sessions(drawn(3), look_back=4, unique=True)
    assert result.inputs["look_back"] == 4 and result.inputs["unique"] is True
    assert any("among their last 4" in note and "equally well" in note for note in result.notes)
    assert isinstance(result["summary"].to_arrow(), pa.Table)


def test_stated_sessions_are_cut_by_model_and_window() -> None:
    day = 86_400_000_000
    columns = {
        "arrival_us": [0, day, 2 * day, 3 * day],
        "model": ["a", "b", "a", None],
        "session_id": [0, 0, 0, 0],
        "parent_id": [None, 0, 1, 2],
        "turn": [1, 2, 3, 4],
        "input_tokens": [1, 5, 9, 20],
        "output_tokens": [1, 1, 1, 1],
    }
    trace = build(columns, origin=Origin("nominal", 0))
    by_model = session_links(trace, SessionOptions(model="a"))
    assert by_model.parent.tolist() == [-1, -1, -1, -1]  # the parent of the second one is another model's
    assert by_model.turn.tolist() == [1, 0, 3, 0]
    late = found_tables(trace, SessionOptions(window_days=(1.0, 3.0)))
    assert {row["rule"]: row["requests"] for row in late["session_rows"]} == {
        "eligible": 2,
        "outside_window": 2,
    }
    assert late["summary"][0]["sessions"] == 1
    with pytest.raises(DataError, match=r"no request of a lies in --window 1:2: .* from day 0 to day 3 "):
        find_sessions(trace, SessionOptions(model="a", window_days=(1.0, 2.0)), Running(threads=1))
    assert session_links(trace, SessionOptions(window_days=(1.0, 3.0))).session.tolist() == [-1, 1, 1, -1]
    with pytest.raises(UsageError, match='unknown model "c"'):
        session_links(trace, SessionOptions(model="c"))


@pytest.mark.parametrize("files", [False, True])
def test_progress_rises_to_its_end(files: bool) -> None:
    told: list[tuple[int, int]] = []
    trace = drawn(3)
    running = Running(
        threads=2, buckets=2, files=files, progress=lambda done, total: told.append((done, total))
    )
    find_sessions(trace, PAPER, running)
    assert told[-1] == (2 * trace.rows, 2 * trace.rows)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_error_leaves_no_file_behind(tmp_path: Path) -> None:
    trace = drawn(3, held=("model",))
    running = Running(threads=1, files=True, folder=tmp_path)
    with pytest.raises(UsageError, match="unknown model"):
        find_sessions(
            trace, SessionOptions(rule="paper", model="none"), running, out=tmp_path / "out.parquet"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rule", ["paper", "stated"])
def test_a_window_without_requests_is_refused_before_anything_is_written(rule: str, tmp_path: Path) -> None:
    counts = {name: [5, 6] for name in ("input_tokens", "output_tokens")}
    trace = build({"arrival_us": [0, 9], "user": ["a", "a"], "session_id": [0, 0], **counts})
    options = SessionOptions(rule=rule, window_days=(400.0, 401.0))
    with pytest.raises(DataError, match="no request lies in --window 400:401"):
        find_sessions(trace, options, Running(threads=1), out=tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []
