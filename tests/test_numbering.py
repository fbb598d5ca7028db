"""Codes given while a trace is read in order: those of a survey, whoever reads first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from servescope.formats.chutes_columns import SideTables, cohorts_of
from servescope.kernels.texts import Texts
from servescope.numbering import Numbering, once
from servescope.views.names import Names
from tests.test_trace import models, trace_of
from tests.traces import build

if TYPE_CHECKING:
    from servescope.trace import Trace


def test_one_reading_gives_the_batches_and_codes_of_a_survey() -> None:
    for trace in (trace_of(models("b", "a", None), models("c", "a")), trace_of(models(None))):
        surveyed = trace_of(*(part.table for part in trace.parts))
        expected = [batch["model"].tolist() for batch in surveyed.batches(["model"])]
        for again in range(2):  # the second time all categories are known
            known = []
            for batch, held in once(trace, ["model"]):
                assert batch["model"].tolist() == expected[len(known)], again
                known.append(len(held["model"].texts))
            assert known[-1] == len(surveyed.names("model"))
        assert trace.codes("model") == surveyed.codes("model")
        assert trace.category("model").counts.tolist() == surveyed.category("model").counts.tolist()


def test_a_survey_goes_on_where_a_reading_ended() -> None:
    trace = trace_of(models("b", "b"), models("a", "b"))
    next(once(trace, ["model"]))
    assert trace.category("model").counts.tolist() == [3, 1]
    assert trace.codes("model") == {"b": 0, "a": 1}


def test_two_readings_in_turn_count_each_row_once() -> None:
    trace = trace_of(models("b"), models("a"), models("b", "c"))
    first, second = once(trace, ["model"]), once(trace, ["model"])
    for _ in range(3):
        assert next(first)[0]["model"].tolist() == next(second)[0]["model"].tolist()
    assert trace.category("model").counts.tolist() == [2, 1, 1]


def test_parts_are_numbered_in_their_order() -> None:
    trace = trace_of(models("b"), models("a"), models("c"))
    numbering = Numbering(trace, ["model"])
    late, early = numbering.read(1), numbering.read(0)  # read in any order
    with pytest.raises(ValueError, match="part 0 of model must be numbered before 1"):
        numbering.number(late)
    assert [numbering.number(rough)["model"].tolist() for rough in (early, late)] == [[0], [1]]
    assert numbering.number(numbering.read(0))["model"].tolist() == [0]  # again: found, not counted
    assert trace.so_far("model").counts.tolist() == [1, 1]


def test_texts_are_an_error_until_they_are_all_known() -> None:
    trace = trace_of(models("b"), models("a"))
    names = Names(trace, ("model",))
    reading = once(trace, ["model"])
    assert names.so_far("model") == [] and names.so_far("user") == ()
    next(reading)
    assert names.so_far("model") == ["b"] and list(names) == ["model"] and len(names) == 1
    with pytest.raises(RuntimeError, match="texts of model are known after the scan"):
        names.get("model")
    next(reading)
    assert names["model"] == ["b", "a"] and names.get("user") is None


def test_a_column_that_the_source_lacks_is_known_at_once() -> None:
    trace = build({"arrival_us": [0, 1]}, cuts=(1,))
    assert Numbering(trace, ["user"]).late == []
    assert [batch["user"].tolist() for batch, _ in once(trace, ["user"])] == [[-1], [-1]]


def test_cohorts_follow_users_as_they_come() -> None:
    keys = Texts()
    keys.add(np.frombuffer(b"axb", np.uint8), np.array([0, 1, 2, 3], np.int32))
    cohorts = cohorts_of(keys, np.array([5, 7, 9], np.int16))
    assert SideTables(cohorts=cohorts).cohorts is cohorts and cohorts is not None

    def months(*users: str) -> Any:
        trace: Trace = build({"arrival_us": list(range(len(users))), "user": list(users)}, cuts=(1, 2, 3))
        found = []
        for batch, held in once(trace, ["user"]):
            found += cohorts.by_code(held["user"])[batch["user"]].tolist()
        assert cohorts.by_code(trace.category("user"))[-1] == null
        return found

    null = -(2**31)
    assert months("b", "u", "b", "a", "x") == [9, null, 9, 5, 7]
    assert months("u", "a", "u", "u", "b") == [null, 5, null, null, 9]  # another trace, other codes
