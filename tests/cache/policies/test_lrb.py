"""LRB learns: it trains on short traces, does as its plain twin, and says how often it trained."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from servescope.cache.check import check_policy
from servescope.cache.policies import lrb, lru
from servescope.cache.policies.lrb_training import FEATURES, trained_model
from servescope.cache.random_cases import Case, random_cases
from servescope.cache.requests import Requests, requests_of
from servescope.errors import UsageError
from tests.cache.cases import asked, ran
from tests.reference.learned_caches import lrb_hits

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("lightgbm")


def mixed_sessions(seed: int, sessions: int) -> Requests:
    """Interleaved sessions: a quarter have many turns soon after each other, the others end soon."""
    random = np.random.default_rng(seed)
    long = random.random(sessions) < 0.25
    turns = np.where(long, random.geometric(1 / 18, sessions), 1 + (random.random(sessions) < 0.2))
    session = np.repeat(np.arange(sessions), turns)
    first = np.cumsum(turns) - turns
    turn = np.arange(len(session)) - first[session]
    pauses = random.lognormal(np.where(long, 6, 8)[session], 1) * (turn > 0)
    total = np.cumsum(pauses)
    times = random.random(sessions)[session] * 6 * sessions + total - total[first][session]
    base = random.lognormal(np.where(long, 8.5, 7.5), 0.5).astype(np.int64)
    order = np.argsort(times, kind="stable")
    _, seen, inverse = np.unique(session[order], return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(seen))[inverse]
    return requests_of(codes, (base[session] + 500 * turn)[order], (times[order] * 1e5).astype(np.int64))


def library_model(seed: int) -> Callable[[Any, Any, int], Callable[[Any], Any]]:
    """How the twin trains: the library itself also predicts."""
    import lightgbm

    def train(rows: Any, labels: Any, before: int) -> Callable[[Any], Any]:
        model = trained_model(np.ascontiguousarray(rows), labels, seed + before)
        return lightgbm.Booster(model_str=model).predict  # type: ignore[no-any-return]

    return train


@pytest.mark.parametrize(("capacity", "window"), [(30_000, 200), (100_000, 64)])
def test_it_does_as_its_twin(capacity: int, window: int) -> None:
    case = Case(mixed_sessions(1, 160), capacity, 5)
    hits, state = ran(lrb, case, window=window, batch=150)
    expected, trainings = lrb_hits(asked(case), capacity, 5, window, 150, library_model(5))
    assert trainings > 2
    assert hits == expected
    assert lrb.details(state)["trainings"] == trainings


def test_before_it_trains_it_is_lru() -> None:
    for case in random_cases(7, 100):
        assert ran(lrb, case)[0] == ran(lru, case)[0]


def test_it_trains_on_a_short_trace_and_beats_lru_where_there_is_something_to_learn() -> None:
    requests = mixed_sessions(2, 4_000)
    case = Case(requests, int(requests.sizes.sum() // 2_000), 1)
    hits, state = ran(lrb, case)
    told = lrb.details(state)
    assert told["trainings"] >= 5
    assert 0 < told["labels_forgotten"] < told["labels"]
    assert told["labels_unused"] == 0
    tokens = case.requests.sizes
    assert (tokens * hits).sum() > 1.05 * (tokens * ran(lru, case)[0]).sum()


@pytest.mark.slow
def test_its_curve_is_not_that_of_lru_on_a_long_trace() -> None:
    requests = mixed_sessions(6, 20_000)
    assert len(requests.objects) > 100_000
    for part in (10_000, 1_000, 100):
        case = Case(requests, int(requests.sizes.sum() // part), 1)
        hits, state = ran(lrb, case)
        assert lrb.details(state)["trainings"] >= 10
        difference = abs(sum(hits) - sum(ran(lru, case)[0])) / len(hits)
        assert difference > 0.001


def test_pieces_and_seeds() -> None:
    case = Case(mixed_sessions(3, 300), 50_000, 9)
    hits, _ = ran(lrb, case, window=200, batch=100)
    pieces = np.zeros(len(hits), np.uint8)
    state = lrb.new(case.requests, case.capacity_tokens, case.seed, window=200, batch=100)
    for first in range(0, len(hits), 37):
        lrb.run(state, case.requests, pieces, first, min(first + 37, len(hits)))
    assert pieces.astype(bool).tolist() == hits
    other = Case(case.requests, case.capacity_tokens, 10)
    assert ran(lrb, other, window=200, batch=100)[0] != hits


def test_the_default_window_follows_the_cache() -> None:
    requests = mixed_sessions(4, 2_000)
    small, large, whole = (lrb.default_window(requests, tokens) for tokens in (1, 1_000_000, 1 << 40))
    assert small == lrb.SHORTEST_WINDOW < large < whole == len(requests.objects) // 4


def test_it_keeps_the_rules_while_it_trains() -> None:
    rows = check_policy("lrb:window=32:batch=32", seed=5, traces=60)["policy_checks"].rows()
    assert [(row["check"], row["example"]) for row in rows if row["failed"]] == []
    trained = 0
    for case in random_cases(5, 60):
        trained += lrb.details(ran(lrb, case, window=32, batch=32)[1])["trainings"]
    assert trained > 10


@pytest.mark.parametrize("parameter", ["window", "batch"])
@pytest.mark.parametrize("value", [-1, 31, 100.5])
def test_parameters_are_whole_and_not_tiny(parameter: str, value: float) -> None:
    with pytest.raises(UsageError, match=parameter):
        ran(lrb, next(random_cases(1, 1)), **{parameter: value})


def test_without_lightgbm_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UsageError, match=r"servescope\[lrb\]"):
        ran(lrb, next(random_cases(1, 1)))


def test_a_description_has_as_many_features_as_the_model_takes() -> None:
    assert FEATURES == 44
