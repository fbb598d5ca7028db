"""What a command loads: nothing that draws, as long as nothing asks for figures."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOT_NEEDED = ("altair", "jinja2", "vl_convert", "pikepdf")
VIEWS = """
import sys
from servescope.cli import run
code = run(['views', {trace!r}, '-o', {out!r}, *{more!r}, '--json'], {{}})
print(code, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def loaded(trace: Path, out: Path, *more: str) -> str:
    code = VIEWS.format(trace=str(trace), out=str(out), heavy=NOT_NEEDED, more=list(more))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


def test_views_without_figures_load_nothing_that_draws(trace: Path, tmp_path: Path) -> None:
    assert loaded(trace, tmp_path / "out", "--no-figures") == "0 []"
    assert (tmp_path / "out/tables/rate.parquet").exists()
    assert loaded(trace, tmp_path / "drawn") == f"0 {list(NOT_NEEDED)}"
