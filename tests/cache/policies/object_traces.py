"""Made traces for object policies, a state's residents, and a run over both."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from servescope.cache.policies import OBJECT_POLICIES
from servescope.cache.requests import Requests, requests_of

Ints = npt.NDArray[np.int64]
SHAPES = ("zipf", "scan", "loop", "uniform")


def module(policy: str) -> Any:
    return importlib.import_module(OBJECT_POLICIES[policy])


def requests_from(names: Ints | list[int], sizes: Ints | list[int]) -> Requests:
    """Requests for any names of objects: dense codes by first access."""
    codes: dict[int, int] = {}
    objects = [codes.setdefault(int(name), len(codes)) for name in names]
    return requests_of(np.array(objects, np.int32), np.array(sizes, np.int64), np.arange(len(sizes)))


def made(shape: str, seed: int, rows: int, objects: int, largest: int) -> Requests:
    """A random trace with one size an object, 1 to `largest`, every tenth object ten times larger."""
    random = np.random.default_rng([seed, SHAPES.index(shape)])
    if shape == "zipf":
        names = random.zipf(1.2, rows) % objects
    elif shape == "scan":
        popular = random.integers(0, max(objects // 10, 1), rows)
        names = np.where(random.random(rows) < 0.5, np.arange(rows) % objects, popular)
    elif shape == "loop":
        names = np.arange(rows) // 2 % objects  # each twice in a row
    else:
        names = random.integers(0, objects, rows)
    sizes = random.integers(1, largest + 1, objects)
    sizes[random.random(objects) < 0.1] *= 10 if largest > 1 else 1
    return requests_from(names, sizes[names])


def grown(seed: int, rows: int, objects: int, largest: int) -> Requests:
    """A random trace whose objects grow, and shrink now and then."""
    random = np.random.default_rng(seed)
    names = np.minimum(random.zipf(1.3, rows), random.integers(1, objects + 1, rows))
    held: dict[int, int] = {}
    sizes = []
    for name, step in zip(
        names.tolist(), random.integers(-largest // 2, largest, rows).tolist(), strict=True
    ):
        held[name] = max(held.get(name, largest // 2) + step, 0)
        sizes.append(held[name])
    return requests_from(names, sizes)


def working_set(requests: Requests) -> int:
    """Sum of each object's first size."""
    first = np.unique(requests.objects, return_index=True)[1]
    return int(requests.sizes[first].sum())


def run(
    policy: str, requests: Requests, capacity: int, **parameters: float
) -> tuple[Any, npt.NDArray[np.bool_]]:
    """The state after all requests, and which hit."""
    state = module(policy).new(requests, capacity, 10, **parameters)
    hits = np.zeros(len(requests.objects), np.uint8)
    module(policy).run(state, requests, hits, 0, len(hits))
    return state, hits.astype(bool)


def residents(policy: str, state: Any) -> dict[int, int]:
    """Tokens of every resident object."""
    if policy in ("s3fifo", "arc"):
        held = state.places < 2
    elif policy == "slru":
        held = state.places >= 0
    else:
        held = state.sizes >= 0
    return {int(item): int(state.sizes[item]) for item in np.flatnonzero(held)}
