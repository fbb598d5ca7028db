"""The default engine: threads of this process (`servescope.pool`)."""

from __future__ import annotations

from servescope.pool import in_order as map
from servescope.pool import results

__all__ = ["map", "results"]
