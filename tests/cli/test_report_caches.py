"""`servescope report` on a trace with prefix blocks: sections, lines, GiB, and the same bytes each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from servescope.trace_write import write_canonical
from tests.report import block_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_canonical(block_sample.trace(), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_the_report_has_the_hit_curve_in_gib_and_advice_by_type(
    servescope: Call, trace: Path, tmp_path: Path
) -> None:
    call = ("report", trace, "--kv-model", "minimax-m2.5", "-o", tmp_path / "out")
    done = servescope(*call)
    assert done.code == 0, done.err
    assert "Knee: LRU finds " in done.out and " GiB" in done.out
    assert "Advice, chat: sessions carry " in done.out and "Advice, api: only 0.0%" in done.out
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for section in ("Hit curve", "Where hits are", "When blocks come back"):
        assert f">{section}</h2>" in page
    assert "capacity, GiB" in page
    assert (tmp_path / "out" / "figures" / "block_hit_curve.svg").exists()
    made = json.loads((tmp_path / "out" / "report.json").read_text())
    assert made["inputs"]["kv_model"] == "minimax-m2.5"
    tables = {path.name: path.read_bytes() for path in (tmp_path / "out" / "tables").iterdir()}
    assert {"cache.parquet", "curve.parquet", "reuse_advice.parquet", "top_prefixes.parquet"} <= set(tables)
    assert servescope(*call, "--threads", "1").code == 0
    again = {path.name: path.read_bytes() for path in (tmp_path / "out" / "tables").iterdir()}
    assert again == tables
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == page


def test_an_unknown_model_is_refused_before_anything_is_written(
    servescope: Call, trace: Path, tmp_path: Path
) -> None:
    done = servescope("report", trace, "--kv-model", "minimax-m2.55", "-o", tmp_path / "out")
    assert done.code == 2 and "minimax-m2.5" in done.err
    assert not (tmp_path / "out").exists()


def test_the_terminal_withholds_advice_too(servescope: Call, tmp_path: Path) -> None:
    write_canonical(block_sample.trace(cached=0.1), tmp_path / "logged.parquet")
    call = ("cache", tmp_path / "logged.parquet", "--policy", "lru", "--capacity", "10%")
    done = servescope(*call)
    assert done.code == 0, done.err
    assert "Advice: the prediction (lru" in done.out and "advice is withheld" in done.out.replace("\n  ", " ")
    assert "Advice, chat" not in done.out


def test_a_sample_ends_with_its_knee_and_page(servescope: Call, trace: Path, tmp_path: Path) -> None:
    done = servescope("cache", trace, "--sample", "1", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert "Knee: LRU finds " in done.out
    assert done.out.endswith(f"{tmp_path / 'out'}/report.html\n")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Block hit ratio by capacity, from a sample" in page
