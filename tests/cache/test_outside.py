"""Policies from files, plain and compiled, do as built-in ones, and every wrong one is told what is wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from servescope.cache.outside import load_outside
from servescope.cache.policies import fifo
from servescope.cache.policies.counts import EVICTIONS, PEAK, USED
from servescope.cache.random_cases import Case, random_cases
from servescope.cache.requests import requests_of
from servescope.errors import UsageError
from tests.cache.cases import asked, ran

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
OURS = HERE / "outside_policies.py"

NUMBA_FIFO = """
    import numba
    import numpy as np

    def queue(objects, head_start=0):
        return np.zeros(objects + 2, np.int64), head_start

    @numba.njit
    def on_hit(state, object, size_tokens, time_us):
        pass

    @numba.njit
    def on_insert(state, object, size_tokens, time_us):
        ring = state[0]
        ring[ring[-1] % (len(ring) - 2)] = object
        ring[-1] += 1

    @numba.njit
    def victim(state):
        ring = state[0]
        ring[-2] += 1
        return ring[(ring[-2] - 1) % (len(ring) - 2)]
"""


def numba_file(folder: Path, text: str = NUMBA_FIFO) -> str:
    path = folder / "compiled.py"
    path.write_text(textwrap.dedent(text))
    return f"{path}:queue"


def test_a_class_does_as_the_policy_it_copies() -> None:
    outside = load_outside(f"{OURS}:Oldest")
    for case in random_cases(8, 200):
        hits, state = ran(outside, case)
        expected, twin = ran(fifo, case)
        assert hits == expected
        for count in (USED, EVICTIONS, PEAK):
            assert state.counts[count] == twin.counts[count]


def test_a_numba_file_does_as_the_policy_it_copies(tmp_path: Path) -> None:
    outside = load_outside(numba_file(tmp_path))
    assert outside.PARAMETERS == {"head_start": 0}
    for case in random_cases(9, 200):
        hits, state = ran(outside, case)
        expected, twin = ran(fifo, case)
        assert hits == expected
        assert state.counts.tolist() == twin.counts.tolist()


def test_parameters_are_arguments_with_numbers() -> None:
    outside = load_outside(f"{OURS}:Oldest")
    assert outside.PARAMETERS == {"newest": 0}
    case = Case(requests_of(np.array([0, 1, 2, 0]), np.ones(4), np.zeros(4)), 2, 0)
    assert ran(outside, case)[0] == [False, False, False, False]
    assert ran(outside, case, newest=1)[0] == [False, False, False, True]


def lru2_hits(case: Case) -> list[bool]:
    """LRU-2 by its definition: the victim's second-last access since it came is the oldest."""
    times: dict[int, list[float]] = {}
    sizes: dict[int, int] = {}
    hits = []
    for number, (item, size, _) in enumerate(asked(case)):
        hits.append(item in sizes)
        incoming = 0
        if item in sizes:
            sizes[item] = size
            times[item].append(number)
        elif size <= case.capacity_tokens:
            incoming = size
        while sum(sizes.values()) + incoming > case.capacity_tokens:
            victim = min(sizes, key=lambda key: times[key][-2:])
            del sizes[victim]
        if not hits[-1] and size <= case.capacity_tokens:
            sizes[item], times[item] = size, [-1.0, number]
    return hits


def test_the_plain_example_is_lru2() -> None:
    outside = load_outside(f"{EXAMPLES / 'my_policy.py'}:LRU2")
    for case in random_cases(10, 200):
        assert ran(outside, case)[0] == lru2_hits(case)


def test_the_numba_example_evicts_the_largest_of_the_first() -> None:
    outside = load_outside(f"{EXAMPLES / 'my_numba_policy.py'}:largest_first")
    case = Case(requests_of(np.array([0, 1, 2, 3, 0, 1]), np.array([3, 5, 2, 4, 3, 5]), np.zeros(6)), 10, 0)
    assert ran(outside, case)[0] == [False, False, False, False, True, False]
    assert ran(outside, case, patience=1)[0] == [False, False, False, False, False, False]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "SaysNone",
            r"victim\(\) answered None at request 2, which is no resident object \(resident: 0, 1\)",
        ),
        ("SaysTrue", r"victim\(\) answered True"),
        ("Repeats", r"victim\(\) answered 0 at request 3"),
        ("Raises", r"on_hit at request 4 failed \(line \d+\): KeyError: 'nobody knows'"),
        ("WantsMore", "asks for friend"),
        ("NoVictim", "has no victim"),
        ("Nobody", "no class or function Nobody. It has the classes Oldest, SaysNone"),
        ("COUNTER", "no class or function COUNTER"),
        ("not_numba", "on_hit, on_insert, victim is missing or not compiled"),
    ],
)
def test_wrong_policies_are_told_what_is_wrong(name: str, message: str) -> None:
    case = Case(requests_of(np.array([0, 1, 2, 3, 3]), np.ones(5), np.zeros(5)), 2, 0)
    with pytest.raises(UsageError, match=message):
        ran(load_outside(f"{OURS}:{name}"), case)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("return 7", "answered 7 at request 2"),
        ("return -1", "answered -1 at request 2"),
        ("pass", "a compiled hook failed"),
        ("return state[0][1 // (state[0][0] - state[0][0])]", "ZeroDivisionError"),
    ],
)
def test_wrong_compiled_victims_are_told_what_is_wrong(tmp_path: Path, answer: str, message: str) -> None:
    head, _, _ = NUMBA_FIFO.rpartition("        ring = state[0]\n        ring[-2] += 1\n")
    outside = load_outside(numba_file(tmp_path, head + f"        {answer}\n"))
    with pytest.raises(UsageError, match=message):
        ran(outside, Case(requests_of(np.arange(5), np.ones(5), np.zeros(5)), 2, 0))


@pytest.mark.parametrize(
    ("text", "message"), [("1 +", "SyntaxError"), ("import nothing_like_it", "nothing_like_it")]
)
def test_a_file_that_fails_is_told_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_outside(numba_file(tmp_path, text))


@pytest.mark.parametrize("name", ["mine.py", "mine:Policy", "/nowhere/mine.py:Policy", ":Policy"])
def test_what_names_no_file_is_told_how(name: str) -> None:
    with pytest.raises(UsageError, match=r"no such file|Example: --policy"):
        load_outside(name)


def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    for default in (1, 2):
        path.write_text(OURS.read_text().replace("newest: int = 0", f"newest: int = {default}"))
        import os

        os.utime(path, ns=(default, default))
        assert {"newest": default} == load_outside(f"{path}:Oldest").PARAMETERS
