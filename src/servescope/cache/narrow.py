"""The rows of one model and window alone, so that a week of a year's trace costs a week, not a year.

Only for sessions that are rebuilt from users and lengths: stated parents and block ids reach further back.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.arrays import Columns
from servescope.numbering import once
from servescope.sessions.links import SessionOptions, rule_of, window_us

if TYPE_CHECKING:
    from servescope.category import Category
    from servescope.trace import Batch, Trace

OUTSIDE, OTHER = "outside_window", "other_model"
NEEDED = (
    "arrival_us", "completed_us", "input_tokens", "output_tokens", "model", "user", "instance", "endpoint",
)  # fmt: skip


def in_window(trace: Trace, window_days: tuple[float, float]) -> Trace:
    """The parts that may hold rows of the window; parts are in order of time, so few are looked into."""
    low, high = window_us(trace, window_days)
    parts = [part for part in trace.parts if part.rows]

    def first(index: int) -> int:
        return int(parts[index].arrow(["arrival_us"]).column(0)[0].as_py())

    begin = bisect_left(range(len(parts)), low, key=first)
    end = bisect_left(range(len(parts)), high, key=first)
    return replace(trace, parts=tuple(parts[max(begin - 1, 0) : end]))


def narrowed(trace: Trace, options: SessionOptions) -> tuple[Trace, SessionOptions, dict[str, int]]:
    """The rows that can take part, what is still asked of them, and how many others there are by rule.

    The trace as it is where nothing can be left out: no model and no window, or sessions that are not
    rebuilt by the rule "paper". Rows of a model are held in memory, 40 bytes each.
    """
    if rule_of(trace, options) != "paper" or (options.model is None and options.window_days is None):
        return trace, options, {}
    near = trace if options.window_days is None else in_window(trace, options.window_days)
    left_out = {OUTSIDE: trace.rows - near.rows, OTHER: 0}
    if options.model is None or not trace.has("model"):
        return near, options, left_out
    columns = [name for name in NEEDED if trace.has(name)]
    pieces: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in columns}
    texts: dict[str, Category] = {}
    for batch, texts in once(near, columns):
        keep = _kept(batch, texts["model"], near, options, left_out)
        for name in columns:
            pieces[name].append(batch[name][keep])
    values = {
        name: np.concatenate([np.zeros(0, schema.BY_NAME[name].dtype), *piece])
        for name, piece in pieces.items()
    }
    names = {name: texts[name].names for name in columns if name in schema.CATEGORIES and name in texts}
    held = Columns(len(values["arrival_us"]), values, names)
    made = replace(near.with_meta(columns=columns), parts=held.parts())
    return made, replace(options, model=None, window_days=None), left_out


def _kept(
    batch: Batch, models: Category, trace: Trace, options: SessionOptions, left_out: dict[str, int]
) -> npt.NDArray[np.int64]:
    """Rows of the model in the window; the others are counted in `left_out`, which is changed."""
    inside = np.ones(batch.rows, np.bool_)
    if options.window_days is not None:
        low, high = window_us(trace, options.window_days)
        start = np.asarray(batch["arrival_us"], np.int64)
        inside = (start >= low) & (start < high)
    code = int(models.find([str(options.model)])[0])
    mine = np.asarray(batch["model"] == code) if code >= 0 else np.zeros(batch.rows, np.bool_)
    left_out[OUTSIDE] += int((~inside).sum())
    left_out[OTHER] += int((inside & ~mine).sum())
    return np.flatnonzero(inside & mine)
