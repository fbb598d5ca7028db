"""Sources that a command treats in a way of its own: pools of clients, Parquet out of order."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import servescope as ss
from servescope.cli import run
from servescope.errors import UsageError
from tests.shared import CASES, DATA, needs_cases, needs_data

if TYPE_CHECKING:
    from pathlib import Path

START_US = 1_000_000


def _chutes(path: Path, order: list[int]) -> Path:
    """Four requests in the given order, one second apart."""
    text, times = pa.string(), pa.timestamp("us")
    pq.write_table(
        pa.table(
            {
                "invocation_id": pa.array(order),
                "function_name": pa.array(["chat"] * 4, text),
                "chute_id": pa.array(["m"] * 4, text),
                "user_id": pa.array(["u"] * 4, text),
                "rehash_round": pa.array([1] * 4),
                "instance_id": pa.array(["i"] * 4, text),
                "started_at": pa.array([START_US * i for i in order], times),
                "completed_at": pa.array([START_US * (i + 1) for i in order], times),
                "it": pa.array([10 + i for i in order]),
                "ot": pa.array([1] * 4),
                "ct": pa.array([0] * 4),
                "ttft": pa.array([0.5] * 4),
            }
        ),
        path,
    )
    return path


def test_convert_sorts_what_cannot_be_streamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _chutes(tmp_path / "year.parquet", [2, 0, 3, 1])
    assert run(["info", str(source)], {"debug": False}) == 3
    assert "run convert, which sorts" in capsys.readouterr().err

    target = tmp_path / "sorted.parquet"
    assert run(["convert", str(source), "-o", str(target), "--json"], {"debug": False}) == 0
    assert json.loads(capsys.readouterr().out)["ledger"]["repaired"] == {"sorted": 2}
    whole = ss.read(target)
    table = pa.concat_tables(whole.arrow(["input_tokens", "source_row"]))
    assert table.to_pydict() == {"source_row": [2, 4, 1, 3], "input_tokens": [10, 11, 12, 13]}
    assert [fact.sha256 for fact in whole.meta.sources] == [hashlib.sha256(source.read_bytes()).hexdigest()]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["sorted.parquet", "year.parquet"]


def test_convert_covers_the_whole_file_with_its_digest(tmp_path: Path) -> None:
    source = _chutes(tmp_path / "year.parquet", [0, 1, 2, 3])
    assert [fact.covers for fact in ss.read(source).meta.sources] == ["footer"]
    ss.convert(ss.read(source), out=tmp_path / "out.parquet")
    fact = ss.read(tmp_path / "out.parquet").meta.sources[0]
    assert (fact.covers, fact.sha256) == ("file", hashlib.sha256(source.read_bytes()).hexdigest())


@needs_data
@pytest.mark.parametrize("command", ["info", "check"])
def test_a_pool_of_clients_is_shown_as_what_it_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DATA / "servegen" / "reason" / "deepseek-r1"
    assert run([command, str(folder), "--json"], {"debug": False}) == 0
    found = json.loads(capsys.readouterr().out)
    pool = found["tables"]["pool"][0]
    assert (pool["clients"], pool["windows"], len(found["tables"]["pool_clients"])) == (73, 10_512, 73)
    assert found["ledger"] == {"read": 73, "kept": 73, "dropped": {}, "repaired": {}}


@needs_cases
def test_a_bad_pool_is_refused_with_file_window_and_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(CASES / "20-servegen-empty-windows")], {"debug": False}) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert 'chunk-7-dataset.json: window 1200, field "input_tokens": empty, but the rate is 0.25' in err


def test_a_read_trace_and_a_path_do_not_mix(tmp_path: Path) -> None:
    source = _chutes(tmp_path / "year.parquet", [0, 1, 2, 3])
    with pytest.raises(UsageError, match="one trace that is read already"):
        ss.info(ss.read(source), source)
