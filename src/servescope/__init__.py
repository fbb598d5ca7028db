"""servescope: one tool for the traffic of LLM serving. `read` a trace, then ask it.

Names are resolved on first use, so that `import servescope` costs next to nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from servescope.version import VERSION as __version__  # noqa: N811

__all__ = [
    "__version__",
    "check",
    "check_policy",
    "convert",
    "demo",
    "export",
    "fingerprint",
    "info",
    "kv_models",
    "kv_size",
    "read",
    "report",
    "report_from",
    "reproduce",
    "sessions",
    "simulate_cache",
    "views",
]

if TYPE_CHECKING:
    from servescope.api import (
        check,
        check_policy,
        convert,
        demo,
        export,
        fingerprint,
        info,
        kv_models,
        kv_size,
        read,
        report,
        report_from,
        reproduce,
        sessions,
        simulate_cache,
        views,
    )


class _Package(ModuleType):
    """Keeps `servescope.views` and its like the public functions.

    Importing a subpackage binds it as an attribute of its parent; where a public function has the
    same name, the function must win, in whatever order things are imported.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> object:
    if name in __all__:
        from servescope import api

        return getattr(api, name)
    raise AttributeError(f"module 'servescope' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
