"""check-policy passes what keeps the rules and finds what breaks them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from servescope.cache import check
from servescope.cache.check import CHECKS, check_policy
from servescope.cache.policies import OBJECT_POLICIES, lru
from servescope.errors import UsageError

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


def failed(policy: str, **options: Any) -> dict[str, str]:
    """Checks that fail, with their example."""
    rows = check_policy(policy, **options)["policy_checks"].rows()
    assert [row["check"] for row in rows] == list(CHECKS)
    assert all((row["failed"] == 0) == (row["example"] is None) for row in rows)
    return {row["check"]: row["example"] for row in rows if row["failed"]}


@pytest.mark.parametrize("name", OBJECT_POLICIES)
def test_every_policy_of_the_table_keeps_the_rules(name: str) -> None:
    if name == "lrb":
        pytest.importorskip("lightgbm")
    assert failed(name, seed=4, traces=40) == {}


@pytest.mark.parametrize("name", ["my_policy.py:LRU2", "my_numba_policy.py:largest_first"])
def test_the_examples_keep_the_rules(name: str) -> None:
    assert failed(f"{EXAMPLES / name}", traces=60) == {}


def test_parameters_are_those_of_a_sweep() -> None:
    assert failed("ttl:ttl_s=1", traces=20) == {}
    with pytest.raises(UsageError, match="ttl_x"):
        check_policy("ttl:ttl_x=1")


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("SaysNone", {"runs"}),
        ("Repeats", {"runs"}),
        ("Raises", {"runs"}),
        ("Restless", {"repeats", "goes_on"}),
    ],
)
def test_wrong_policies_fail(name: str, broken: set[str]) -> None:
    found = failed(f"{HERE / 'outside_policies.py'}:{name}", traces=60)
    assert set(found) == broken
    assert all(text.startswith("trace ") for text in found.values())


class Cheat:
    """LRU that says more than is true."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def new(self, requests: Any, capacity_tokens: int, seed: int) -> Any:
        return lru.new(requests, capacity_tokens, seed)

    def run(self, state: Any, requests: Any, hits: Any, first: int, last: int) -> None:
        lru.run(state, requests, hits, first, last)
        if self.fault == "always":
            hits[first:last] = 1
        if self.fault == "pieces" and first > 0:
            hits[first] = 0


@pytest.mark.parametrize(
    ("fault", "broken"),
    [("always", {"hits_what_was_there", "within_bound"}), ("pieces", {"goes_on"})],
)
def test_cheats_are_found(monkeypatch: pytest.MonkeyPatch, fault: str, broken: set[str]) -> None:
    monkeypatch.setattr(check, "policy_of", lambda name: Cheat(fault))
    assert set(failed("lru", traces=60)) == broken


def test_a_cache_that_is_too_full_is_found() -> None:
    case = SimpleNamespace(capacity_tokens=10)
    fine = (np.zeros(2), [10, 0, 0, 10])
    assert check._fits(case, fine, fine, check.Pieces(fine[0], fine[1], [3, 10])) == ""  # type: ignore[arg-type]
    assert "after request 1" in check._fits(case, fine, fine, check.Pieces(fine[0], fine[1], [3, 11]))  # type: ignore[arg-type]
    full = (np.zeros(2), [10, 0, 0, 11])
    assert "peak" in check._fits(case, full, full, check.Pieces(full[0], full[1], [3, 10]))  # type: ignore[arg-type]


def test_what_cannot_be_checked_is_said() -> None:
    with pytest.raises(UsageError, match="no policy but what none can pass"):
        check_policy("bound")
    with pytest.raises(UsageError, match='unknown policy "lrv"'):
        check_policy("lrv")
    with pytest.raises(UsageError, match="at least 1"):
        check_policy("lru", traces=0)


def test_the_same_seed_gives_the_same_table() -> None:
    name = f"{HERE / 'outside_policies.py'}:SaysNone"
    tables = [check_policy(name, seed=seed, traces=10)["policy_checks"].data for seed in (1, 1, 2)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
