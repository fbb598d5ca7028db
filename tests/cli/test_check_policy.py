"""`servescope check-policy` prints its table either way; its exit code says whether a rule is broken."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.cli.conftest import Finished

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "tests/cache/outside_policies.py"


def test_a_policy_that_keeps_the_rules(servescope: Callable[..., Finished]) -> None:
    done = servescope("check-policy", f"{ROOT}/examples/my_policy.py:LRU2")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:3] == [
        "policy_checks",
        "check                traces  failed  example",
    ]
    assert "runs                    200       0        –" in done.out


def test_a_policy_that_breaks_one(servescope: Callable[..., Finished]) -> None:
    done = servescope("check-policy", f"{OURS}:Repeats", "--json", "--seed", "3")
    assert done.code == 3
    assert "Repeats breaks runs" in done.err
    document = json.loads(done.out)
    assert document["inputs"] == {"policy": f"{OURS}:Repeats", "seed": 3, "traces": 200}
    row = document["tables"]["policy_checks"][0]
    assert row["check"] == "runs"
    assert 0 < row["failed"] <= row["traces"] == 200
    assert "which is no resident object" in row["example"]


def test_what_keeps_a_policy_from_running_is_no_broken_rule(
    servescope: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    done = servescope("check-policy", "lrb")
    assert (done.code, done.out) == (2, "")
    assert 'pip install "servescope[lrb]"' in done.err
    done = servescope("check-policy", "s3fifo:threshold=0")
    assert (done.code, done.out) == (2, "")
    assert "threshold is 0" in done.err


def test_a_policy_that_is_not_there(servescope: Callable[..., Finished]) -> None:
    done = servescope("check-policy", "./nothing.py:Mine")
    assert (done.code, done.out) == (2, "")
    assert "there is no such file" in done.err
