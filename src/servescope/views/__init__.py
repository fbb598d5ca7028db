"""Views: what a trace's traffic is like, as result tables."""

from __future__ import annotations

from servescope.views.catalogue import VIEWS, load
from servescope.views.scan import run_views
from servescope.views.sketch import ViewOptions

__all__ = ["VIEWS", "ViewOptions", "load", "run_views"]
