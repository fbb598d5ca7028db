"""Flat trees say exactly what the library says."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.kernels.boosted_trees import MOST_LEAVES, empty_trees, fill_trees, predict

lightgbm = pytest.importorskip("lightgbm")

ROWS = 3_000


def model(leaves: int, rounds: int, kind: str = "many", **settings: object) -> tuple[object, np.ndarray]:
    """A booster and the rows that it was trained on."""
    random = np.random.default_rng(leaves)
    rows = random.random((ROWS, 6)).astype(np.float32)
    rows[:, 1] = np.floor(rows[:, 1] * 4)  # ties with thresholds
    labels = np.zeros(ROWS) if kind == "flat" else 3 * rows[:, 0] + rows[:, 1] * rows[:, 2]
    given = {"num_leaves": leaves, "use_missing": False, "verbosity": -1, "num_threads": 1, **settings}
    return lightgbm.train(given, lightgbm.Dataset(rows, label=labels), num_boost_round=rounds), rows


@pytest.mark.parametrize(("leaves", "rounds"), [(MOST_LEAVES, 32), (2, 5), (7, 1)])
def test_predictions_are_equal_to_the_last_bit(leaves: int, rounds: int) -> None:
    booster, rows = model(leaves, rounds)
    trees = empty_trees(32)
    fill_trees(trees, booster.model_to_string())
    sums = np.empty(ROWS)
    predict(trees, np.ascontiguousarray(rows.T), ROWS, np.empty(ROWS, np.uint32), sums)
    assert np.array_equal(sums, booster.predict(rows))


def test_a_model_without_splits_and_a_second_model() -> None:
    trees = empty_trees(32)
    fill_trees(trees, model(MOST_LEAVES, 32)[0].model_to_string())
    booster, rows = model(4, 3, "flat")
    fill_trees(trees, booster.model_to_string())
    sums = np.full(ROWS, 9.0)
    predict(trees, np.ascontiguousarray(rows.T), 10, np.empty(ROWS, np.uint32), sums)
    assert np.array_equal(sums[:10], booster.predict(rows[:10]))
    assert (sums[10:] == 9.0).all()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="room for 2"):
        fill_trees(empty_trees(2), model(4, 3)[0].model_to_string())
    with pytest.raises(ValueError, match="leaves"):
        fill_trees(empty_trees(3), model(40, 3)[0].model_to_string())
