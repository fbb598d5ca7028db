"""Sketches as files: every attribute of a sketch, kept without loss in one Arrow IPC file.

A sketch is walked: whole numbers, texts, dicts, lists, tuples, arrays and objects of this package. Arrays
become record batches of bytes, without the zeros at their end (room that nothing has filled yet); all else
a tree of JSON in the file's metadata, with a header that says whose state it is. Reading makes objects of
this package's own classes and sets their attributes; nothing that the file says is ever run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.errors import DataError
from servescope.files import atomic
from servescope.views.sketch import Context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Array = npt.NDArray[Any]
Tree = Any  # what JSON holds
LAYOUT = 2
KEY = b"servescope.state"
SCHEMA = pa.schema([pa.field("bytes", pa.uint8(), nullable=False)])
PLAIN = (str, int, bool, type(None))
PACKAGE = "servescope."
LOOKED_AT = 1 << 16  # bytes at once, in search of the zeros at an end


@dataclass
class State:
    """A value taken apart.

    tree    JSON; an array is {"array": index, "dtype": …, "shape": …}
    arrays  the arrays, each once
    """

    tree: Tree
    arrays: list[Array] = field(default_factory=list)


def take_apart(value: Any) -> State:
    """The state of any value that is made of what the module names; arrays are not copied.

    Raises TypeError for anything else, such as an open file or an array of objects.
    """
    state = State(None)
    seen: dict[int, int] = {}

    def walk(value: Any) -> Tree:
        if type(value) in PLAIN:
            return value
        if isinstance(value, Context):
            return {"context": True}
        if isinstance(value, (np.ndarray, np.generic)):
            return _array(value, state.arrays, seen)
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, dict):
            return {"dict": [[walk(key), walk(held)] for key, held in value.items()]}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"named": _name(type(value)), "items": [walk(one) for one in value]}
        for kind in (list, tuple, set):
            if type(value) is kind:
                return {kind.__name__: [walk(one) for one in value]}
        attributes = value.__getstate__() if type(value).__module__.startswith(PACKAGE) else None
        if not isinstance(attributes, dict):
            raise TypeError(f"{type(value).__name__} cannot be stored as state")
        return {"object": _name(type(value)), "state": [[name, walk(v)] for name, v in attributes.items()]}

    state.tree = walk(value)
    return state


def put_together(state: State, context: Context | None) -> Any:
    """The value again, with arrays that may be changed; `context` stands where one stood.

    Raises DataError for a tree that names anything but data classes of this package.
    """
    arrays: dict[int, Any] = {}

    def walk(tree: Tree) -> Any:
        if type(tree) in PLAIN:
            return tree
        if "context" in tree:
            return context
        if "array" in tree:
            return _restored(tree, state.arrays, arrays)
        if "float" in tree:
            return float.fromhex(tree["float"])
        if "dict" in tree:
            return {walk(key): walk(held) for key, held in tree["dict"]}
        for kind in (list, tuple, set):
            if kind.__name__ in tree:
                return kind(walk(one) for one in tree[kind.__name__])
        if "named" in tree:
            return _class(tree["named"], tuple)(*(walk(one) for one in tree["items"]))
        made = object.__new__(_class(tree["object"], object))
        made.__dict__.update((name, walk(held)) for name, held in tree["state"])
        return made

    return walk(state.tree)


def _array(value: Any, arrays: list[Array], seen: dict[int, int]) -> Tree:
    if value.dtype.hasobject:
        raise TypeError("an array of objects cannot be stored as state")
    at = seen.get(id(value))
    if at is None:
        at = len(arrays)
        arrays.append(np.asarray(value))
        if isinstance(value, np.ndarray):
            seen[id(value)] = at
    shape = list(value.shape) if isinstance(value, np.ndarray) else None
    return {"array": at, "dtype": value.dtype.str, "shape": shape}


def _restored(tree: Tree, stored: Sequence[Array], arrays: dict[int, Any]) -> Any:
    at = tree["array"]
    if at not in arrays:
        whole = np.array(stored[at])
        raw = np.ascontiguousarray(whole).reshape(-1).view(np.uint8).view(np.dtype(tree["dtype"]))
        arrays[at] = raw[0] if tree["shape"] is None else raw.reshape(tree["shape"])
    return arrays[at]


def _name(kind: type) -> str:
    if not kind.__module__.startswith(PACKAGE):
        raise TypeError(f"{kind.__name__} cannot be stored as state")
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, parent: type) -> Any:
    """A class of this package by its name. Raises DataError for anything else."""
    module, _, path = name.partition(":")
    found: Any = import_module(module) if module.startswith(PACKAGE) else None
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, parent) and found.__module__ == module):
        raise DataError(f'a state names "{name}", which is no data of this release.')
    return found


def write(path: Path, header: Mapping[str, Any], states: Mapping[str, State]) -> None:
    """Write named states with a header, whole or not at all.

    header  what JSON holds; read without the states by `Reader`
    states  used up: each array is let go when it is written
    """
    trees: dict[str, Tree] = {}
    batches: list[Array] = []
    for name, state in states.items():
        trees[name] = [len(batches), len(state.arrays), state.tree]
        batches += state.arrays
        state.arrays.clear()
    sizes = [array.nbytes for array in batches]
    document = {"layout": LAYOUT, "header": dict(header), "values": trees, "sizes": sizes}
    text = json.dumps(document, separators=(",", ":"))
    schema = SCHEMA.with_metadata({KEY: text.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as part, pa.ipc.new_file(str(part), schema) as writer:
        batches.reverse()
        while batches:
            array = batches.pop()
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            writer.write_batch(pa.record_batch([pa.array(raw[: _filled(raw)])], schema=schema))


def _filled(raw: npt.NDArray[np.uint8]) -> int:
    """Bytes up to the last piece that is not all 0."""
    end = len(raw)
    while end and not raw[max(end - LOOKED_AT, 0) : end].any():
        end = max(end - LOOKED_AT, 0)
    return end


class Reader:
    """A file of `write`: its header at once, its values when asked for."""

    def __init__(self, path: Path) -> None:
        """Raises DataError for a file that is none, is cut, or has another layout."""
        self.path = path
        try:
            # not memory-mapped: the file may be replaced while its arrays are used
            self._file = pa.ipc.open_file(pa.OSFile(str(path)))
            document = json.loads((self._file.schema.metadata or {})[KEY])
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise self._broken(error) from error
        if document.get("layout") != LAYOUT:
            raise DataError(f"{path}: a state of another layout. Run again without --resume.")
        self.header: dict[str, Any] = document["header"]
        self._values: dict[str, Tree] = document["values"]
        self._sizes: list[int] = document["sizes"]

    @property
    def names(self) -> set[str]:
        """Names of the values."""
        return set(self._values)

    def state(self, name: str) -> State:
        """A value, taken apart. Raises DataError for a broken file, KeyError for an unknown name."""
        first, count, tree = self._values[name]
        try:
            return State(tree, [self._array(at) for at in range(first, first + count)])
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error

    def value(self, name: str, context: Context | None = None) -> Any:
        """A value; `context` stands where one stood. Raises as `state` and `put_together`."""
        return put_together(self.state(name), context)

    def _array(self, at: int) -> Array:
        held: Array = self._file.get_batch(at).column(0).to_numpy()
        if len(held) == self._sizes[at]:
            return held
        whole = np.zeros(self._sizes[at], np.uint8)
        whole[: len(held)] = held
        return whole

    def _broken(self, error: Exception) -> DataError:
        first = (str(error).strip().splitlines() or ["unreadable"])[0].rstrip(".")
        return DataError(f"{self.path}: broken state ({first}). Run again without --resume.")
