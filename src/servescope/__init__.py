"""servescope: one tool for the traffic of LLM serving. `read` a trace, then ask it.

Names are resolved on first use, so that `import servescope` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "check",
    "convert",
    "demo",
    "export",
    "fingerprint",
    "info",
    "read",
    "report",
    "report_from",
    "views",
]

if TYPE_CHECKING:
    from servescope.api import (
        check,
        convert,
        demo,
        export,
        fingerprint,
        info,
        read,
        report,
        report_from,
        views,
    )


def __getattr__(name: str) -> object:
    if name in __all__:
        from servescope import api

        return getattr(api, name)
    raise AttributeError(f"module 'servescope' has no attribute {name!r}")
