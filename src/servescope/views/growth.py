"""Fitting an older state to more data: new codes get room, and what cannot be fitted begins anew.

What a sketch of the older trace looks like when empty is compared with one of the longer trace. Where
they differ only because categories have more texts, the state gets room in the same places: at the
end of an axis of n (or k times n) slots, before the last slot of an axis of n + 1 or n + 2 (the last one
stands for null). Any other difference comes from something that depends on the whole trace, such as
highlighted models or a window at its end: such a view is scanned from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from servescope.views.names import Names
from servescope.views.sketch import Context
from servescope.views.state import Array, State, Tree, take_apart

if TYPE_CHECKING:
    from servescope.views.sketch import View

WHOLE_TRACE = frozenset({f.name for f in fields(Context)} - {"meta", "texts", "options"})
MOST_NULLS = 2  # slots beside the codes: one for all, one for null


class CannotFitError(Exception):
    """The state depends on more than what may grow."""


@dataclass(frozen=True)
class Watched(Context):
    """A context that notes which facts of the whole trace are asked for while rows are folded in.

    asked  names of `WHOLE_TRACE`, changed
    """

    asked: set[str] = field(default_factory=set, compare=False)

    def __getattribute__(self, name: str) -> Any:
        if name in WHOLE_TRACE:
            object.__getattribute__(self, "asked").add(name)
        return object.__getattribute__(self, name)


def watched(context: Context, asked: set[str]) -> Watched:
    """The same context; `asked` is changed when something of the whole trace is read."""
    return Watched(**{f.name: getattr(context, f.name) for f in fields(Context)}, asked=asked)


def fitted(view: View, state: State, old: Context, new: Context) -> State:
    """The state of a view of trace `old` (a first part of `new`) as one of `new`.

    Raises CannotFitError where that needs the rows again.
    """
    stage = old
    for category in whole_names(new):
        texts, fewer = new.texts[category], stage.texts.get(category, ())
        if len(texts) > len(fewer):
            more = replace(stage, texts={**stage.texts, category: texts})
            sizes = (len(fewer), len(texts))
            state = _grown(state, take_apart(view.new(stage)), take_apart(view.new(more)), sizes)
            stage = more
    before, after = take_apart(view.new(stage)), take_apart(view.new(new))
    if before.tree != after.tree or not all(map(np.array_equal, before.arrays, after.arrays)):
        raise CannotFitError(f"{view.name} depends on the whole trace")
    return state


def _grown(state: State, old: State, new: State, sizes: tuple[int, int]) -> State:
    """The state with the room that `new` has and `old`, both empty, has not."""
    arrays = list(state.arrays)

    def walk(tree: Tree, a: Tree, b: Tree) -> Tree:
        if isinstance(a, dict) and isinstance(b, dict) and "array" in a and "array" in b:
            return _array(tree, a, b)
        if a == b and not isinstance(a, (dict, list)):
            return tree
        if isinstance(a, dict) and isinstance(b, dict) and isinstance(tree, dict):
            if a.keys() != b.keys() or tree.keys() != a.keys():
                raise CannotFitError
            return {key: walk(tree[key], a[key], b[key]) for key in a}
        if isinstance(a, list) and isinstance(b, list) and isinstance(tree, list):
            if len(tree) == len(a) == len(b):
                return [walk(*three) for three in zip(tree, a, b, strict=True)]
            if not a and not b:  # filled while rows were folded in
                return tree
            raise CannotFitError
        if tree != a:  # a number that differs by what may grow, but has been changed since
            raise CannotFitError
        return b

    def _array(tree: Tree, a: Tree, b: Tree) -> Tree:
        empty, wider = old.arrays[a["array"]], new.arrays[b["array"]]
        if not isinstance(tree, dict) or "array" not in tree or a["dtype"] != b["dtype"]:
            raise CannotFitError
        if a["shape"] == b["shape"]:
            if not np.array_equal(empty, wider):
                raise CannotFitError
            return tree
        own = _shaped(arrays[tree["array"]], tree)
        made = _with_room(own, empty, wider, sizes)
        arrays[tree["array"]] = made
        return {**tree, "shape": list(made.shape)}

    return State(walk(state.tree, old.tree, new.tree), arrays)


def whole_names(context: Context) -> list[str]:
    """Categories whose texts are all known before the scan: of the others empty sketches know nothing."""
    texts = context.texts
    return [name for name in texts if not isinstance(texts, Names) or texts.trace.knows(name)]


def _shaped(array: Array, tree: Tree) -> Array:
    raw: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(np.dtype(tree["dtype"]))
    return raw.reshape(tree["shape"])


def _with_room(own: Array, empty: Array, wider: Array, sizes: tuple[int, int]) -> Array:
    """`own` with room on the one axis on which `wider` is longer than `empty`."""
    if own.ndim != wider.ndim or empty.ndim != wider.ndim:
        raise CannotFitError
    axes = [axis for axis in range(wider.ndim) if empty.shape[axis] != wider.shape[axis]]
    if len(axes) != 1 or own.shape[axes[0]] != empty.shape[axes[0]]:
        raise CannotFitError
    axis = axes[0]
    length, longer = empty.shape[axis], wider.shape[axis]
    at = _place(length, longer, *sizes)
    fresh = np.moveaxis(wider, axis, 0)[at : at + longer - length]
    if own.shape[:axis] != wider.shape[:axis] or own.shape[axis + 1 :] != wider.shape[axis + 1 :]:
        if np.any(fresh):  # the view has made the array larger in other ways: only empty slots fit
            raise CannotFitError
        rest = np.moveaxis(own, axis, 0).shape[1:]
        fresh = np.zeros((longer - length, *rest), own.dtype)
    moved = np.moveaxis(own, axis, 0)
    return np.ascontiguousarray(np.moveaxis(np.concatenate([moved[:at], fresh, moved[at:]]), 0, axis))


def _place(length: int, longer: int, texts: int, more: int) -> int:
    """Where the new slots of an axis go. Raises CannotFitError where the lengths do not tell."""
    beside = length - texts
    if 1 <= beside <= MOST_NULLS and longer - more == beside:
        return length - 1
    times = longer // more
    if longer == times * more and length == times * texts:
        return length
    raise CannotFitError
