"""How this process loads Arrow: without pandas, which nothing here needs."""

from __future__ import annotations

import functools
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class _Hidden(MetaPathFinder):
    """A place to look for modules that says that there is no pandas."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Of other modules it knows nothing. Raises ModuleNotFoundError."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Load Arrow and let it find no pandas.

    Arrow looks for it at its first array and loads it where it is installed, to know its frames when it is
    given one: 0.3 s of every command. Who asks Arrow for a frame later on gets it: then it looks again.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


def with_arrow(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, for which Arrow is loaded so; its help is shown without."""

    @functools.wraps(command)
    def wrapper(**given: object) -> None:
        leave_pandas_out()
        command(**given)

    return wrapper
