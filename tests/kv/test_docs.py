"""The page on memory holds what the catalogue says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_models_is_fresh() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "kv_models.py", "--check"], check=True)
