"""Figures as files: the same bytes each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pikepdf
import vl_convert

from servescope.report.figure_files import in_order, write_figures

if TYPE_CHECKING:
    from pathlib import Path

SPEC: dict[str, Any] = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "data": {"values": [{"x": x, "y": x * x, "line": f"l{x % 5}"} for x in range(40)]},
    "mark": {"type": "point", "filled": True, "opacity": 0.5},
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
        "color": {"field": "line", "type": "nominal"},
        "opacity": {"field": "x", "type": "quantitative"},
    },
}


def test_equal_specifications_give_equal_bytes(tmp_path: Path) -> None:
    for run in ("a", "b", "c", "d"):
        write_figures({"one": SPEC}, {"one": "One"}, tmp_path / run)
    for name in ("one.svg", "one.pdf"):
        assert len({(tmp_path / run / name).read_bytes() for run in ("a", "b", "c", "d")}) == 1, name


def test_pdfs_in_any_order_become_one() -> None:
    svg = vl_convert.vegalite_to_svg(SPEC)
    raw = {vl_convert.svg_to_pdf(svg) for _ in range(12)}
    assert len(raw) > 1, "the library has learned to write in order: drop in_order"
    assert len({in_order(pdf) for pdf in raw}) == 1


def test_what_is_put_in_order_is_still_the_drawing(tmp_path: Path) -> None:
    path = tmp_path / "one.pdf"
    raw = vl_convert.svg_to_pdf(vl_convert.vegalite_to_svg(SPEC))
    path.write_bytes(in_order(raw))
    (tmp_path / "raw.pdf").write_bytes(raw)
    with pikepdf.open(path) as put, pikepdf.open(tmp_path / "raw.pdf") as was:
        assert len(put.pages) == len(was.pages) == 1
        assert put.pages[0].Contents.read_bytes() == was.pages[0].Contents.read_bytes()
        assert set(put.pages[0].Resources.Font.keys()) == set(was.pages[0].Resources.Font.keys())
