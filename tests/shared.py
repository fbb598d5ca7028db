"""Where the material that tests share lies beside the checkout, if it does."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = SHARED / "cases"
DATA = SHARED / "data"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside the checkout")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real traces are not beside the checkout")
