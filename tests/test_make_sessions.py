"""The makers of traces with known sessions: same seed, same bytes, and the traits that others rely on."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servescope import read
from servescope.schema import NULL_INT64

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import make_blocks
import make_sessions
import session_accuracy

SHAPE = make_sessions.Shape(20_000, users=60, parallel=3, dominant=0.4, models=3, seed=4)


def columns_of(path: Path) -> dict[str, np.ndarray]:
    """Numbers of a canonical trace, by column."""
    names = ("arrival_us", "completed_us", "input_tokens", "output_tokens", "session_id", "parent_id", "turn")
    trace = read(path)
    batches = list(trace.batches([name for name in names if trace.has(name)]))
    return {n: np.concatenate([b[n] for b in batches]).astype(np.int64) for n in names if trace.has(n)}


@pytest.mark.parametrize("form", sorted(make_sessions.FORMS))
def test_same_seed_same_bytes(form: str, tmp_path: Path) -> None:
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        make_sessions.FORMS[form](tmp_path / name, replace(SHAPE, rows=3_000, seed=seed))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_truth_inside(tmp_path: Path) -> None:
    make_sessions.make_canonical(tmp_path / "t.parquet", SHAPE)
    made = columns_of(tmp_path / "t.parquet")
    parent, turn, session = made["parent_id"], made["turn"], made["session_id"]
    rows = np.arange(SHAPE.rows)
    linked = np.flatnonzero(parent != NULL_INT64)
    above = parent[linked]
    assert 0.5 < len(linked) / SHAPE.rows < 0.95
    assert (above < linked).all() and (session[above] == session[linked]).all()
    assert (turn[linked] == turn[above] + 1).all()
    firsts = np.setdiff1d(rows, linked)
    assert (session[firsts] == firsts).all() and (turn[firsts] == 1).all()
    grown = made["input_tokens"][linked] > made["input_tokens"][above] + made["output_tokens"][above]
    assert 0.9 < grown.mean() < 1.0  # the rest had its history cut
    waited = made["arrival_us"][linked] > made["completed_us"][above]
    assert 0.9 < waited.mean() < 1.0
    assert made["arrival_us"][0] == 0 and (np.diff(made["arrival_us"]) >= 0).all()
    children = np.unique(above, return_counts=True)[1]
    assert 0 < (children > 1).mean() < 0.1  # the last turn was tried again


def test_the_logged_form_holds_the_same_rows_without_truth(tmp_path: Path) -> None:
    make_sessions.make_canonical(tmp_path / "t.parquet", SHAPE)
    make_sessions.make_chutes(tmp_path / "c.parquet", SHAPE)
    made = columns_of(tmp_path / "t.parquet")
    logged = pq.read_table(tmp_path / "c.parquet")
    assert logged.column("it").to_numpy().tolist() == made["input_tokens"].tolist()
    started = logged.column("started_at").cast(pa.int64()).to_numpy()
    assert started.tolist() == made["arrival_us"].tolist()
    assert not {"session_id", "parent_id", "turn"} & set(logged.column_names)
    users = np.unique_counts(logged.column("user_id").drop_null().to_pylist()).counts
    assert len(users) == SHAPE.users + 1
    assert 0.3 < users.max() / SHAPE.rows < 0.5  # the dominant user
    facts = read(tmp_path / "c.parquet")
    assert facts.meta.format == "chutes" and not facts.has("session_id")


def test_typed_blocks(tmp_path: Path) -> None:
    shape = replace(make_blocks.PRESETS["to-c"], rows=4_000)
    makers = [make_blocks.make(tmp_path / f"{i}.parquet", shape) for i in range(2)]
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()
    trace = read(tmp_path / "0.parquet")
    assert (trace.meta.block_tokens, trace.meta.chained) == (16, True)
    assert set(trace.names("request_type")) == {"text", "search", "image", "file"}
    prompts: list[list[int]] = []
    held: dict[int, tuple[int, ...]] = {}
    for batch in trace.batches(["block_ids", "input_tokens"]):
        bounds = batch.block_offsets
        assert (np.diff(bounds) == -(-batch["input_tokens"] // 16)).all()
        prompts += [batch.block_values[a:b].tolist() for a, b in itertools.pairwise(bounds)]
    for prompt in prompts[:500]:
        for end, block in enumerate(prompt, 1):
            assert held.setdefault(block, tuple(prompt[:end])) == tuple(prompt[:end])  # ids are chained
    references = sum(map(len, prompts))
    distinct = len({block for prompt in prompts for block in prompt})
    assert references == makers[0].references
    assert distinct <= makers[0].fresh
    assert 0.35 < 1 - distinct / references < 0.65


def test_blocks_end_with_the_references(tmp_path: Path) -> None:
    shape = replace(make_blocks.PRESETS["scale"], references=200_000)
    maker = make_blocks.make(tmp_path / "t.parquet", shape)
    assert 200_000 <= maker.references < 202_000
    assert read(tmp_path / "t.parquet").rows == maker.rows


@pytest.mark.slow
def test_the_accuracy_tables_are_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("PARALLEL", (2,)), ("LOOK_BACKS", (1, 10)), ("USERS", (1, 10))):
        monkeypatch.setattr(session_accuracy, name, value)
    page = tmp_path / "page.md"
    page.write_text(f"above {session_accuracy.BEGIN} old {session_accuracy.END} below")
    monkeypatch.setattr(sys, "argv", ["session_accuracy.py", "--rows", "300", "--docs", str(page)])
    session_accuracy.main()
    text = page.read_text()
    assert text.startswith("above ") and text.endswith(" below") and " old " not in text
    lines = [line for line in text.splitlines() if line.startswith("| made, 2 chains a user |")]
    assert len(lines) == 2 and lines[0].count(" / ") == 2
    assert "| made, no sessions: true | 1.000 | 1.000 |" in text
