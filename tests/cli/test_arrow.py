"""What a command loads: no pandas, no drawing, as long as nothing asks for them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NOT_NEEDED = ("pandas", "altair", "jinja2", "vl_convert")
VIEWS = """
import sys
from servescope.cli import run
code = run(['views', {trace!r}, '-o', {out!r}, '--no-figures', '--json'], {{}})
print(code, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
FRAME = """
from servescope.cli.arrow import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
print(pa.table({'a': [1, 2]}).to_pandas()['a'].sum(), pa.array(__import__('pandas').Series([1, 2])))
"""


def _output(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_views_without_figures_load_neither_pandas_nor_drawing(trace: Path, tmp_path: Path) -> None:
    done = _output(VIEWS.format(trace=str(trace), out=str(tmp_path / "out"), heavy=NOT_NEEDED))
    assert done.stderr.splitlines()[-1] == "0 []"
    assert (tmp_path / "out/tables/rate.parquet").exists()


def test_arrow_still_makes_frames() -> None:
    pytest.importorskip("pandas")
    assert _output(FRAME).stdout.split()[0] == "3"
