"""`servescope kv`: what tokens cost in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import servescope as ss
from servescope.errors import UsageError
from servescope.kv.catalogue import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]


def test_the_catalogue(servescope: Call) -> None:
    done = servescope("kv")
    assert done.code == 0
    lines = done.out.splitlines()
    listed = {line.split()[0] for line in lines if line and not line.startswith("kv_models")}
    assert {model.name for model in catalogue().models} == listed - {"model"}
    assert max(map(len, lines)) <= 80
    found = json.loads(servescope("kv", "--json").out)
    assert found["command"] == "kv"
    assert found["ledger"]["read"] == 0
    rows = {row["model"]: row for row in found["tables"]["kv_models"]}
    assert rows["minimax-m2.5"]["bytes_per_token"] == 253_952
    assert rows["qwen3-next-80b-a3b"]["full_layers"] == 12
    assert rows["qwen3-next-80b-a3b"]["state_layers"] == 36


def test_one_model(servescope: Call) -> None:
    done = servescope("kv", "MiniMaxAI/MiniMax-M2.5", "--tokens", "100000", "--bandwidth", "10GB/s", "--json")
    found = json.loads(done.out)
    assert found["inputs"] == {"model": "minimax-m2.5", "tensor_parallel": 1, "bandwidth": "10GB/s"}
    (row,) = found["tables"]["kv_transfer"]
    assert (row["bytes"], row["transfer_s"]) == (25_395_200_000, 2.53952)
    shown = servescope("kv", "minimax-m2.5", "--tokens", "100000", "--bandwidth", "10GB/s")
    assert "25,395,200,000" in shown.out
    assert "rows read" not in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["minimax-2.5"], "Did you mean minimax-m2.5"),
        (["minimax-m2.5", "--bandwidth", "10Gb/s"], "is no bandwidth"),
        (["minimax-m2.5", "--kv-dtype", "fp7"], "unknown precision"),
        (["minimax-m2.5", "--tensor-parallel", "3"], "cannot be split over 3 ranks"),
        (["minimax-m2.5", "--prefill-tokens-per-s", "0"], "above 0"),
        (["--tokens", "5"], "are of one MODEL"),
        (["--kv-dtype", "fp7"], "unknown precision"),
    ],
)
def test_wrong_usage(servescope: Call, arguments: list[str], message: str) -> None:
    done = servescope("kv", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_from_python() -> None:
    whole = ss.kv_models(tensor_parallel=16)
    rows = whole["kv_models"].rows()
    assert {row["model"] for row in rows} < {model.name for model in catalogue().models}
    assert whole.notes[0].startswith("16 ranks cannot split the heads of ")
    assert all(row["tensor_parallel"] == 16 for row in rows)
    with pytest.raises(UsageError, match="1 or more"):
        ss.kv_models(tensor_parallel=0)
    plain = ss.kv_size("llama-3.1-8b")
    assert list(plain.tables) == ["kv_models"]
    speeds = ss.kv_size("llama-3.1-8b", bandwidth="1GB/s", prefill_tokens_per_s=20_000)
    assert [row["tokens"] for row in speeds["kv_transfer"].rows()] == [1_000, 10_000, 100_000]
    assert speeds["kv_transfer"].rows()[0]["break_even_tokens"] is None  # 131 µs a token against 50
    unsure = ss.kv_size("minimax-m1")
    assert any("not every number was seen" in note for note in unsure.notes)
