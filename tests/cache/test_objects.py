"""From a trace to accesses: which rows, which objects, which credits."""

from __future__ import annotations

import pytest

from servescope.cache.objects import ALL, object_workload
from servescope.errors import DataError
from servescope.sessions.links import SessionOptions
from tests.cache.sessions import growing_trace
from tests.traces import build

ROWS = {
    "arrival_us": [0, 10, 20, 30, 40, 50, 60],
    "user": ["a", "b", "a", None, "b", "a", "b"],
    "session_id": [7, 8, 7, None, 8, 7, 8],
    "input_tokens": [100, 50, 130, 10, None, 120, 0],
    "output_tokens": [20, None, 5, 1, 1, 1, 1],
}


def test_rows_objects_and_credits_of_stated_sessions() -> None:
    found = object_workload(build(ROWS))
    assert found.rule == "stated" and found.name == ALL
    assert found.requests.objects.tolist() == [0, 1, 0, 0]
    assert found.requests.sizes.tolist() == [100, 50, 130, 120]
    # the parent's input and output, but no more than the prompt itself: 130 + 5 against 120
    assert found.prefix.tolist() == [0, 0, 120, 120]
    assert found.whole == 150
    counted = {rule: count for rule, count in found.left_out.items() if count}
    assert counted == {"no_session": 1, "no_input_tokens": 1, "no_prompt": 1}
    assert found.rows + sum(found.left_out.values()) == 7


def test_the_whole_prompt_is_the_other_credit_and_sizes_are_the_same() -> None:
    found = object_workload(build(ROWS), credit="prompt")
    assert found.credits.tolist() == found.requests.sizes.tolist() == [100, 50, 130, 120]


def test_an_object_trace_credits_what_the_object_held() -> None:
    columns = {name: ROWS[name] for name in ("arrival_us", "session_id", "input_tokens")}
    found = object_workload(build(columns))
    assert found.credits.tolist() == [0, 0, 100, 120]
    assert found.clusters.kind == "session"


def test_model_and_window_leave_rows_out_by_rule() -> None:
    trace = growing_trace(300)
    day = 1 / 86_400
    options = SessionOptions(model="m1", window_days=(0, 200 * day))
    found = object_workload(trace, options)
    assert found.name == "m1"
    assert found.left_out["other_model"] > 40 and found.left_out["outside_window"] > 0
    assert found.rows + sum(found.left_out.values()) == 300
    assert found.requests.arrival_us.max() < 200_000_000


def test_bases_leave_the_warm_up_out() -> None:
    found = object_workload(build(ROWS), warmup=0.5)
    assert found.first == 2
    assert found.bases["requests"].sum() == 2 and found.bases["input_tokens"].sum() == 250


def test_nothing_left_says_why() -> None:
    trace = build({**ROWS, "session_id": [None] * 7})
    with pytest.raises(DataError, match=r"7 that belong to no session \(no_session\)"):
        object_workload(trace, SessionOptions(rule="stated"))
