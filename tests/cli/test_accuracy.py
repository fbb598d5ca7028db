"""`servescope sessions --against`: the tables, the options that belong to it, what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from servescope.trace_write import write_canonical
from tests.sessions.test_accuracy import INTERLEAVED
from tests.traces import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]


def test_against_stated(servescope: Call, tmp_path: Path) -> None:
    write_canonical(build(INTERLEAVED), tmp_path / "t.parquet")
    options = ("--against", "stated", "--look-backs", "1,2", "--users", "1,64", "--json")
    done = servescope("sessions", tmp_path / "t.parquet", *options)
    assert done.code == 0, done.err
    tables = json.loads(done.out)["tables"]
    assert tables["accuracy"][0]["recall"] == 1.0
    assert [row["recall"] for row in tables["accuracy_look_back"]] == [0.0, 1.0]
    found = {(row["users"], row["look_back"]): row["recall"] for row in tables["accuracy_users"]}
    assert found[1, 1] == 0.0 and found[64, 1] == 1.0
    assert len(found) == 4
    assert {row["dimension"] for row in tables["accuracy_by"]} == {"turn", "gap_s", "concurrency", "distance"}


def test_figures_stand_beside_the_tables_and_are_replaced_with_them(servescope: Call, tmp_path: Path) -> None:
    write_canonical(build(INTERLEAVED), tmp_path / "t.parquet")
    call = ("sessions", tmp_path / "t.parquet", "--tables", tmp_path / "out", "--against", "stated")
    assert servescope(*call, "--look-backs", "1,2").code == 0
    drawn = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert {"accuracy_look_back.svg", "accuracy_look_back.pdf", "accuracy_turn.svg"} <= drawn
    assert "Right links by look-back" in (tmp_path / "out" / "figures" / "accuracy_look_back.svg").read_text()
    assert servescope(*call).code == 0
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} < drawn
    assert (tmp_path / "out" / "accuracy.parquet").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--look-backs", "1"), "--look-backs belongs to --against"),
        (("--users", "10"), "--users belongs to --against"),
        (("--against", "stated", "--users", "ten"), "whole numbers between commas"),
        (("--against", "stated", "--look-backs", "0,5"), "numbers of at least 1"),
        (("--against", "blocks"), "needs block ids"),
        (("--against", "stated", "--rule", "stated"), "against itself"),
        (("--against", "stated", "--rule", "blocks", "--look-backs", "5"), "belongs to the rule `paper`"),
    ],
)
def test_refused(servescope: Call, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    write_canonical(build(INTERLEAVED), tmp_path / "t.parquet")
    done = servescope("sessions", tmp_path / "t.parquet", *options)
    assert (done.code, done.out) == (2, "")
    assert message in " ".join(done.err.split())
