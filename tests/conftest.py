"""Settings of the whole test run."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

# A fresh kernel cache for every run: a stale one could hide an edit.
os.environ.setdefault("SERVESCOPE_CACHE_DIR", tempfile.mkdtemp(prefix="servescope-test-kernels-"))

settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("default")
