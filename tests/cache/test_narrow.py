"""A week of a trace gives what the whole trace gives for that week, and is all that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.cache import objects as module
from servescope.cache.narrow import in_window, narrowed
from servescope.cache.objects import object_workload
from servescope.errors import DataError
from servescope.sessions.links import SessionOptions
from servescope.trace import Origin, Trace
from tests.cache.sessions import growing_trace

if TYPE_CHECKING:
    from servescope.cache.objects import ObjectWorkload

DAY_S = 86_400


def whole(trace: Trace, options: SessionOptions) -> ObjectWorkload:
    """The workload without narrowing."""
    kept = module.narrowed
    module.narrowed = lambda trace, options: (trace, options, {})
    try:
        return object_workload(trace, options)
    finally:
        module.narrowed = kept


@given(
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from([None, "m0", "m1"]),
    st.integers(0, 280),
    st.integers(1, 300),
    st.sampled_from([0, 5 * DAY_S * 1_000_000_000]),
)
def test_the_same_accesses_as_from_the_whole_trace(
    cuts: list[int], model: str | None, first_s: int, length_s: int, clock_ns: int
) -> None:
    trace = growing_trace(200, cuts=tuple(cuts)).with_meta(origin=Origin("nominal", clock_ns))
    begin = (clock_ns // 1_000_000_000 + first_s) / DAY_S
    options = SessionOptions(model=model, window_days=(begin, begin + length_s / DAY_S))
    made: list[Any] = []
    for work in (object_workload, whole):
        try:
            found = work(trace, options)
        except DataError as error:
            made.append(str(error))
            continue
        arrays = (found.requests.objects, found.requests.sizes, found.requests.arrival_us, found.prefix)
        counts = (found.clusters.codes.tolist(), found.left_out, found.rule)
        made.append(([values.tolist() for values in arrays], counts))
    assert made[0] == made[1]


def test_only_the_parts_of_the_window_are_kept() -> None:
    trace = growing_trace(400, cuts=tuple(range(20, 400, 20)))
    start = np.concatenate([batch["arrival_us"] for batch in trace.batches(["arrival_us"])])
    low, high = start[150] / 1e6 / DAY_S, start[190] / 1e6 / DAY_S
    near = in_window(trace, (low, high))
    assert 2 <= len(near.parts) <= 4
    kept = np.concatenate([batch["arrival_us"] for batch in near.batches(["arrival_us"])])
    assert set(start[150:190]) <= set(kept)


def test_stated_sessions_and_whole_traces_are_left_as_they_are() -> None:
    trace = growing_trace(30)
    assert narrowed(trace, SessionOptions()) == (trace, SessionOptions(), {})
    stated = growing_trace(30, session_id=[0] * 30)
    assert narrowed(stated, SessionOptions(model="m1"))[0] is stated
    assert narrowed(stated, SessionOptions(model="m1", rule="paper"))[0].rows < 30


def test_a_model_that_the_window_lacks_leaves_nothing() -> None:
    with pytest.raises(DataError, match=r"outside the window \(outside_window\)"):
        object_workload(growing_trace(30), SessionOptions(model="m1", window_days=(50.0, 51.0)))
