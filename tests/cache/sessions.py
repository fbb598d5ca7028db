"""Small traces with sessions for tests of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.traces import build

if TYPE_CHECKING:
    from servescope.trace import Trace


def growing_trace(
    rows: int = 600, *, users: int = 12, seed: int = 1, cuts: tuple[int, ...] = (), **more: Any
) -> Trace:
    """Users whose conversations grow and at times begin anew; `model` is m0 or m1 by user.

    cuts  rows at which a new part begins; more: other columns
    """
    random = np.random.default_rng(seed)
    who = random.integers(0, users, rows).tolist()
    history = dict.fromkeys(range(users), 0)
    inputs, outputs = [], []
    for user in who:
        if random.random() < 0.15:
            history[user] = 0
        inputs.append(history[user] + int(random.integers(5, 60)))
        outputs.append(int(random.integers(1, 30)))
        history[user] = inputs[-1] + outputs[-1]
    columns = {
        "arrival_us": np.cumsum(random.integers(0, 3_000_000, rows)).tolist(),
        "user": [f"u{user}" for user in who],
        "model": [f"m{user % 2}" for user in who],
        "endpoint": ["chat"] * rows,
        "input_tokens": inputs,
        "output_tokens": outputs,
    }
    return build({**columns, **more}, cuts=cuts)
