"""Somebody's own policy from a file: FILE.py:NAME, as if it were one of the table.

The driver here keeps which objects are resident, their sizes and the capacity; the policy only says
who goes. It has three hooks, in one of two forms:

    plain Python   NAME is a class with on_hit(object, size_tokens, time_us), on_insert(object,
                   size_tokens, time_us) and victim()
    Numba          the file has jitted functions on_hit(state, object, size_tokens, time_us),
                   on_insert(state, object, size_tokens, time_us) and victim(state); NAME is a function
                   that makes `state`, a tuple of arrays

An object is an int, 0, 1, 2 … by first access. `victim` names a resident object; it leaves at once and
is not named again unless it comes back. On a hit: the new size counts, `on_hit`, then `victim` until the
cache fits, and the object just hit may be named. On a miss: nothing for an object larger than the
cache; else `victim` until there is room, then `on_insert`. `examples/my_policy.py` and
`examples/my_numba_policy.py` are such files.

NAME gets those of the arguments `objects` (how many there are), `capacity_tokens` and `seed` that it
asks for by name; its other arguments need a number as default and are the policy's parameters.
"""

from __future__ import annotations

import importlib.util
import inspect
import operator
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from servescope.cache.outside_numba import drive
from servescope.cache.policies.counts import EVICTIONS, PEAK, USED, counters
from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from servescope.cache.requests import Requests

HOOKS = ("on_hit", "on_insert", "victim")
GIVEN = ("objects", "capacity_tokens", "seed")
OUTSIDE_ERRORS = (Exception, SystemExit)  # somebody's file must not end the run as if all were well


class State(NamedTuple):
    """What the driver keeps, and what the policy keeps.

    counts  int64[4], see `counts`
    sizes   int64[objects], tokens held; -1: not resident
    own     instance of the class, or the state of a Numba file
    """

    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    own: Any


@dataclass(frozen=True)
class OutsidePolicy:
    """A policy from a file, with what a module of the table has: PARAMETERS, new, run.

    name        FILE.py:NAME as given
    make        the class, or the function that makes a Numba file's state
    hooks       jitted functions of a Numba file; empty for a class
    PARAMETERS  name -> default
    """

    name: str
    make: Callable[..., Any]
    hooks: tuple[Any, ...]
    PARAMETERS: dict[str, float]

    def new(self, requests: Requests, capacity_tokens: int, seed: int, **parameters: float) -> State:
        """An empty cache for these requests. Raises UsageError where NAME fails."""
        given = {"objects": requests.known, "capacity_tokens": capacity_tokens, "seed": seed}
        wanted = inspect.signature(self.make).parameters
        try:
            own = self.make(**{k: v for k, v in given.items() if k in wanted}, **parameters)
        except OUTSIDE_ERRORS as error:
            _failed(self.name, "making it", error)
        return State(counters(capacity_tokens), np.full(requests.known, -1, np.int64), own)

    def run(
        self, state: State, requests: Requests, hits: npt.NDArray[np.uint8], first: int, last: int
    ) -> None:
        """Access requests `first` up to before `last`. Changes the state and hits[first:last].

        Raises UsageError where a hook fails or `victim` names no resident object.
        """
        if self.hooks:
            _run_numba(self, state, requests, hits, first, last)
        else:
            _run_plain(self, state, requests, hits, first, last)


def load_outside(name: str) -> OutsidePolicy:
    """The policy FILE.py:NAME; the file is run, once for as long as it does not change.

    Raises UsageError where the file is missing or fails, or NAME is neither form of a policy.
    """
    text, _, attribute = name.rpartition(":")
    path = Path(text)
    if not attribute or path.suffix != ".py":
        raise UsageError(f'"{name}" is no policy of a file. Example: --policy ./mine.py:MyPolicy.')
    if not path.is_file():
        raise UsageError(f"{text}: there is no such file, so no policy {attribute}. Check the path.")
    stamp = path.stat().st_mtime_ns
    return _load(name, path.resolve(), attribute, stamp)


@cache
def _load(name: str, path: Path, attribute: str, stamp: int) -> OutsidePolicy:
    module = _module(path, stamp)
    made = getattr(module, attribute, None)
    if inspect.isclass(made):
        missing = [hook for hook in HOOKS if not callable(getattr(made, hook, None))]
        if missing:
            raise UsageError(f"{name}: the class has no {', '.join(missing)}. It needs {', '.join(HOOKS)}.")
        return OutsidePolicy(name, made, (), _parameters(name, made))
    if not callable(made):
        raise UsageError(_nothing_named(name, attribute, module))
    hooks = tuple(getattr(module, hook, None) for hook in HOOKS)
    plain = [hook for hook, found in zip(HOOKS, hooks, strict=True) if not hasattr(found, "py_func")]
    if plain:
        raise UsageError(
            f"{name} is a function, so the file should be a Numba file, but its {', '.join(plain)} "
            "is missing or not compiled. Decorate the three hooks with @numba.njit, or name a class."
        )
    return OutsidePolicy(name, made, hooks, _parameters(name, made))


@cache
def _module(path: Path, stamp: int) -> ModuleType:
    """The file as a module. Raises UsageError where it fails."""
    title = f"_servescope_policy_{path.stem}_{stamp}"
    spec = importlib.util.spec_from_file_location(title, path)
    assert spec is not None and spec.loader is not None  # the suffix is .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module  # dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except OUTSIDE_ERRORS as error:
        del sys.modules[title]
        _failed(str(path), "running the file", error)
    return module


def _nothing_named(name: str, attribute: str, module: ModuleType) -> str:
    classes = [k for k, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
    has = f"It has the classes {', '.join(classes)}." if classes else "It has no class."
    return f"{name}: the file has no class or function {attribute}. {has}"


def _parameters(name: str, made: Callable[..., Any]) -> dict[str, float]:
    """Arguments with a number as default that are not given by the driver."""
    found: dict[str, float] = {}
    for argument in inspect.signature(made).parameters.values():
        if argument.name in GIVEN or argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if not isinstance(argument.default, (int, float)) or argument.kind == argument.POSITIONAL_ONLY:
            raise UsageError(
                f"{name} asks for {argument.name}. It is given {', '.join(GIVEN)} by name; any other "
                "argument is a parameter and needs a number as default."
            )
        found[argument.name] = argument.default
    return found


def _run_plain(
    policy: OutsidePolicy,
    state: State,
    requests: Requests,
    hits: npt.NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    """`OutsidePolicy.run` for a class. Slow on purpose: every access is a call of somebody's Python."""
    counts, own, sizes = state.counts, state.own, state.sizes.tolist()  # a list: twice as fast
    capacity, used, evictions, peak = counts.tolist()
    asked = (requests.objects, requests.sizes, requests.arrival_us)
    number, hook = first, HOOKS[0]
    try:
        for item, size, time_us in zip(*(column[first:last].tolist() for column in asked), strict=True):
            held = sizes[item]
            hits[number] = held >= 0
            if held >= 0:
                used += size - held
                sizes[item] = size
                hook = "on_hit"
                own.on_hit(item, size, time_us)
            incoming = size if held < 0 and size <= capacity else 0
            while used + incoming > capacity:
                hook = "victim"
                victim = _resident(policy.name, own.victim(), sizes, number)
                used -= sizes[victim]
                sizes[victim] = -1
                evictions += 1
            if held < 0 and size <= capacity:
                used += size
                sizes[item] = size
                hook = "on_insert"
                own.on_insert(item, size, time_us)
            peak = max(peak, used)
            number += 1
    except UsageError:
        raise
    except OUTSIDE_ERRORS as error:
        _failed(policy.name, f"{hook} at request {number}", error)
    finally:
        counts[USED], counts[EVICTIONS], counts[PEAK] = used, evictions, peak
        state.sizes[:] = sizes


def _resident(name: str, answer: Any, sizes: list[int], number: int) -> int:
    """The victim as an int. Raises UsageError unless it is a resident object."""
    try:
        victim = operator.index(answer)
    except TypeError:
        victim = -1
    if isinstance(answer, bool) or not 0 <= victim < len(sizes) or sizes[victim] < 0:
        _wrong_victim(name, repr(answer)[:80], np.array(sizes), number)
    return victim


def _wrong_victim(name: str, answer: str, sizes: npt.NDArray[np.int64], number: int) -> NoReturn:
    residents = np.flatnonzero(sizes >= 0)
    shown = ", ".join(map(str, residents[:5])) + (", …" if len(residents) > 5 else "")
    raise UsageError(
        f"{name}: victim() answered {answer} at request {number}, which is no resident object (resident: "
        f"{shown or 'none'}). It must name an object that was inserted and not named since."
    )


def _run_numba(
    policy: OutsidePolicy,
    state: State,
    requests: Requests,
    hits: npt.NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    """`OutsidePolicy.run` for a Numba file."""
    stop = np.array([last, 0], np.int64)
    try:
        drive(state.counts, state.sizes, state.own, requests, hits, first, stop, *policy.hooks)
    except OUTSIDE_ERRORS as error:
        _failed(policy.name, "a compiled hook", error)
    if stop[0] < last:
        _wrong_victim(policy.name, str(stop[1]), state.sizes, int(stop[0]))


def _failed(name: str, what: str, error: BaseException) -> NoReturn:
    """Raise a UsageError that says what an exception of somebody's file says, and where."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".py")]
    file = name.rpartition(":")[0] or name
    lines = [frame.lineno for frame in own if Path(frame.filename).name == Path(file).name]
    where = f" (line {lines[-1]})" if lines else ""
    text = next((line for line in str(error).splitlines() if line.strip()), "no message").strip()[:300]
    raise UsageError(f"{name}: {what} failed{where}: {type(error).__name__}: {text}") from None
