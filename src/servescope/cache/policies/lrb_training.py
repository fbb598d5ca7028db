"""The model of LRB: gradient boosting through LightGBM, with the settings of the paper's simulator.

32 rounds of trees with 32 leaves, learning rate 0.1, 80 % of the features a tree, 80 % of the rows
drawn anew every 5 rounds (Song et al., NSDI 2020, and its public simulator). One thread, row-wise and
deterministic: the same rows and seed give the same model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servescope.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DELTAS = 32  # times between accesses
HALVES = 10  # exponentially decayed counts
FEATURES = DELTAS + 2 + HALVES
TREES = 32
LEAVES = 32
SETTINGS: dict[str, Any] = {
    "objective": "regression",
    "num_leaves": LEAVES,
    "learning_rate": 0.1,
    "feature_fraction": 0.8,
    "bagging_freq": 5,
    "bagging_fraction": 0.8,
    "use_missing": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


def require_lightgbm() -> Any:
    """The module lightgbm. Raises UsageError with the remedy where it is missing."""
    try:
        import lightgbm
    except ImportError:
        raise UsageError(
            "the policy lrb learns with LightGBM, which is not installed. Install the extra: "
            'pip install "servescope[lrb]".'
        ) from None
    return lightgbm


def trained_model(features: npt.NDArray[np.float32], labels: npt.NDArray[np.float32], seed: int) -> str:
    """A model of these rows in LightGBM's text form; neither array is modified.

    features  float32[rows, FEATURES], no NaN
    labels    float32[rows]
    """
    lightgbm = require_lightgbm()
    settings = {**SETTINGS, "seed": seed}
    rows = lightgbm.Dataset(features, label=labels, params=settings)
    return str(lightgbm.train(settings, rows, num_boost_round=TREES).model_to_string())
