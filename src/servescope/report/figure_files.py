"""Figures as files: SVG and PDF from the same specification as on the page."""

from __future__ import annotations

import copy
import io
import re
from typing import TYPE_CHECKING, Any

import pikepdf
import vl_convert

from servescope.report.theme import file_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WIDTH = 640
_IDS = re.compile(r'(url\(#|id=")(clip|gradient_)(\d+)(\)|")')


def fixed(spec: Mapping[str, Any], title: str) -> dict[str, Any]:
    """A copy of a page specification with a width and a title of its own."""
    copied = copy.deepcopy(dict(spec))
    copied["width"] = WIDTH
    copied["title"] = title
    copied["padding"] = 12
    copied["config"] = file_config()
    return copied


def renumbered(svg: str) -> str:
    """The SVG with its clip and gradient ids counted from 0 in it.

    The library counts them over the life of the process, so equal figures would differ in bytes.

    >>> renumbered('<g clip-path="url(#clip7)"/><clipPath id="clip7"/>')
    '<g clip-path="url(#clip0)"/><clipPath id="clip0"/>'
    """
    found: dict[str, str] = {}

    def place(match: re.Match[str]) -> str:
        start, kind, number, end = match.groups()
        return start + kind + found.setdefault(kind + number, str(len(found))) + end

    return _IDS.sub(place, svg)


def in_order(pdf: bytes) -> bytes:
    """The same PDF with its objects and resources in one order: the library writes them in any."""
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as document:
        document.save(written, deterministic_id=True)
    return written.getvalue()


def write_figures(specs: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str], folder: Path) -> None:
    """Write `folder/NAME.svg` and `folder/NAME.pdf` of every specification; nothing is fetched.

    Equal specifications give equal bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, spec in specs.items():
        svg = renumbered(vl_convert.vegalite_to_svg(fixed(spec, titles[name]), allowed_base_urls=[]))
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        (folder / f"{name}.pdf").write_bytes(in_order(vl_convert.svg_to_pdf(svg)))
