"""The page: one offline file from saved results, the same bytes for the same results."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec
import vl_convert
from markupsafe import Markup

from servescope.files import atomic, write_atomic
from servescope.report import charts_accuracy
from servescope.report.charts import draw_all, draw_figures
from servescope.report.figure import unchecked
from servescope.report.figure_files import write_figures
from servescope.report.grids import cell, grids
from servescope.report.saved import printable, read_saved, saved_in, saved_of
from servescope.report.study import ABOUT, StudyPart, study_part
from servescope.report.summary import LINES, duration, summarise
from servescope.report.theme import themes
from servescope.result import write_tables

if TYPE_CHECKING:
    from servescope.report.charts import Drawn, Skipped
    from servescope.report.saved import Saved
    from servescope.report.stored import Shape
    from servescope.result import Table

PAGE = "report.html"
# In a script element only "<" can end the element; the others are escaped for old parsers.
_JSON_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(folder: str | Path, *, figures: bool = True, compare: str | None = None) -> Path:
    """Draw `folder/report.html` and `folder/figures/` from `folder/tables/` and `folder/report.json`.

    figures  whether to write the figure files; without them an earlier figures/ is removed
    compare  whose published numbers are laid over (`published.PUBLISHED`); None: as the result says

    Returns the page's path. Page and figures are written whole or not at all; nothing else is
    touched. Raises UsageError or DataError where the folder holds no readable result.
    """
    folder = Path(folder)
    saved = read_saved(folder)
    drawn, skipped = draw_all(saved)
    study = study_part(saved, compare)
    every = [*drawn, *study.drawn]
    specs = {item.name: specification(item) for item in every}
    page = build(saved, drawn, skipped, specs, study=study, files=figures).encode()
    if figures:
        with atomic(folder / "figures") as part:
            write_figures(specs, {item.name: item.figure.title for item in every}, part)
    else:
        shutil.rmtree(folder / "figures", ignore_errors=True)
    write_atomic(folder / PAGE, page)
    return folder / PAGE


def write_page(
    tables: dict[str, Table], document: dict[str, Any], folder: Path, *, figures: bool = True
) -> None:
    """Write tables/ and report.json of a result into `folder`, then draw the page of them."""
    write_tables(tables, folder / "tables")
    write_atomic(folder / "report.json", msgspec.json.encode(document))
    render(folder, figures=figures)


def draw_files(folder: Path, document: dict[str, Any]) -> None:
    """Draw `folder/figures/` from `folder/tables/`, without a page.

    document  what would stand in report.json
    """
    saved = saved_in(folder / "tables", document)
    every = [*draw_all(saved)[0], *study_part(saved).drawn]
    titles = {item.name: item.figure.title for item in every}
    write_figures({item.name: specification(item) for item in every}, titles, folder / "figures")


def draw_accuracy(tables: dict[str, Table], folder: Path) -> None:
    """Draw how right a session rule is, as `folder/NAME.svg` and `NAME.pdf`; whole or not at all."""
    every, _ = draw_figures(charts_accuracy.FIGURES, saved_of(tables, {}))
    with atomic(folder) as part:
        titles = {item.name: item.figure.title for item in every}
        write_figures({item.name: specification(item) for item in every}, titles, part)


def specification(item: Drawn) -> dict[str, Any]:
    """The chart's specification as plain data, with its text alternative, without a look of its own."""
    with unchecked():
        spec: dict[str, Any] = item.drawing.chart.to_dict(validate=False)
    spec.pop("config", None)
    spec["description"] = item.drawing.says
    return spec


def script_json(value: object) -> str:
    """JSON with sorted keys that can stand inside a script element whatever its texts hold."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _JSON_ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _bundle() -> str:
    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


def _resource(name: str) -> str:
    return resources("servescope.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Content security policy: these scripts and inline styles, nothing else, no address at all."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def build(
    saved: Saved,
    drawn: list[Drawn],
    skipped: list[Skipped],
    specs: dict[str, Any],
    *,
    study: StudyPart,
    files: bool = True,
) -> str:
    """The page as text. Every text of the results is escaped; only our own files are not.

    study  its second part, left out where it is empty
    files  whether figure files stand beside the page, to be linked
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    script, bundle, lines = _resource("page.js"), _bundle(), summarise(saved)
    meta, ledger = saved.meta, saved.document.get("ledger") or {}
    return environment.from_string(_resource("template.html")).render(
        policy=_policy(bundle, script),
        files=files,
        css=Markup(_resource("page.css")),
        script=Markup(script),
        bundle=Markup(bundle),
        data=Markup(script_json({"figures": specs, "themes": themes()})),
        heading=_heading(saved),
        lead=_lead(saved),
        lines=lines,
        lines_title="In ten lines" if len(lines) == len(LINES) else "Findings",
        sections=_sections(drawn),
        study=_study(study),
        skipped=skipped,
        grids=grids(saved),
        limits=saved.rows("limits"),
        ledger=_ledger(ledger),
        decisions=meta.get("decisions") or [],
        notes=saved.document.get("notes") or [],
        sources=[{**source, "bytes": f"{source['bytes']:,}"} for source in meta.get("sources") or []],
        facts=_facts(saved),
        tables=[(name, f"{s.rows:,}", printable(s.doc)) for name, s in _shapes(saved)],
        footer=f"servescope {saved.document.get('version', '')}".strip(),
    )


def _shapes(saved: Saved) -> list[tuple[str, Shape]]:
    return [(name, saved.shape(name)) for name in sorted(saved.tables)]


def _heading(saved: Saved) -> str:
    names = [Path(source["name"]).name or source["name"] for source in saved.meta.get("sources") or []]
    if not names:
        return "Trace"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _lead(saved: Saved) -> str:
    facts = saved.row("facts")
    parts = [f"Format {saved.meta.get('format', 'unknown')}"]
    if facts:
        parts.append(f"{facts['requests']:,} requests")
        if (saved.meta.get("origin") or {}).get("kind") != "none":
            parts.append(duration(facts["span_s"]))
    if saved.meta.get("block_tokens"):
        known = saved.meta.get("chained")
        chained = "chaining unknown" if known is None else ("chained" if known else "not chained")
        parts.append(f"prefix blocks of {saved.meta['block_tokens']} tokens, {chained}")
    return " · ".join(parts)


def _study(part: StudyPart) -> dict[str, Any] | None:
    if not (part.drawn or part.compared):
        return None
    return {
        "about": ABOUT,
        "credit": part.credit,
        "compared": part.compared,
        "sections": _sections(part.drawn, prefix="study-"),
        "skipped": part.skipped,
    }


def _sections(drawn: list[Drawn], prefix: str = "") -> list[dict[str, Any]]:
    sections: dict[str, list[dict[str, str]]] = {}
    for name, figure, drawing in drawn:
        texts = {
            "name": name,
            "title": figure.title,
            "definition": figure.definition,
            "limits": figure.limits,
        }
        texts |= {"says": drawing.says, "remark": drawing.remark, "samples": drawing.samples}
        texts |= {"code": figure.code, "origin": figure.origin, "error": figure.error}
        texts |= {"differs": figure.differs}
        sections.setdefault(figure.section, []).append(texts)
    return [
        {"id": prefix + title.lower().replace(" ", "-"), "title": title, "figures": items}
        for title, items in sections.items()
    ]


def _ledger(ledger: dict[str, Any]) -> list[tuple[str, str]]:
    if not ledger:
        return []
    dropped, repaired = ledger["dropped"], ledger["repaired"]
    rows = [("read", ledger["read"]), ("kept", ledger["kept"]), ("rejected", sum(dropped.values()))]
    rows += [(f"rejected: {rule}", n) for rule, n in sorted(dropped.items())]
    rows += [(f"repaired: {rule}", n) for rule, n in sorted(repaired.items())]
    return [(label, f"{n:,}") for label, n in rows]


def _facts(saved: Saved) -> list[tuple[str, str]]:
    row = saved.row("facts")
    return [(name.replace("_", " "), "not stated" if row[name] is None else cell(row[name])) for name in row]
