"""Settings of the whole test run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# Compiled kernels are named by their sources, so a folder that stays hides no edit and saves minutes; it is
# not the user's own.
os.environ.setdefault("SERVESCOPE_CACHE_DIR", str(Path(tempfile.gettempdir()) / "servescope-test-kernels"))

settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("default")
