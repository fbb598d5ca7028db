"""The page as a file: escaping, the content policy, the same bytes, whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from typing import TYPE_CHECKING

import pytest

from servescope.errors import DataError, UsageError
from servescope.report import page
from servescope.report.charts import FIGURES
from servescope.report.page import render, script_json
from servescope.report.saved import printable
from tests.report import sample

if TYPE_CHECKING:
    from pathlib import Path


class Reader(html.parser.HTMLParser):
    """Collects what the page holds: tags with attributes, scripts, texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(("/" + tag, {}))

    def handle_data(self, data: str) -> None:
        inside = self.tags[-1][0] if self.tags else ""
        (self.scripts if inside == "script" else self.texts).append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = sample.write(tmp_path_factory.mktemp("report") / "out")
    render(made)
    return made


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_hostile_names_are_text_everywhere(text: str) -> None:
    reader = Reader(text)
    assert [tag for tag, _ in reader.tags].count("script") == 3
    assert not [tag for tag, _ in reader.tags if tag in ("img", "iframe", "object", "embed")]
    assert sample.HOSTILE not in text
    assert "&lt;/script&gt;&lt;img src=" in text
    assert "{{7*7}}" in "".join(reader.texts)  # a template must not have worked it out
    data = json.loads(reader.scripts[0])
    series = {row["series"] for row in data["figures"]["arrivals_10s"]["data"]["values"]}
    assert printable(sample.HOSTILE) in series


def test_the_page_asks_for_nothing(text: str) -> None:
    reader = Reader(text)
    for tag, attributes in reader.tags:
        assert "src" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        address = attributes.get("href") or ""
        assert re.match(r"(#|data:,$|figures/[a-z0-9_]+\.(svg|pdf)$|$)", address), (tag, address)
    assert "url(" not in text.split("<body>")[0] and "@import" not in text.split("<body>")[0]


def test_the_policy_allows_exactly_the_scripts_on_the_page(text: str) -> None:
    reader = Reader(text)
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy and "*" not in policy
    digests = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in reader.scripts[1:]}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests and len(digests) == 2


def test_every_figure_is_on_the_page_with_words_definition_and_limits(text: str, folder: Path) -> None:
    reader = Reader(text)
    charts = [a for tag, a in reader.tags if a.get("class") == "chart"]
    assert [a["data-figure"] for a in charts] == list(FIGURES)
    assert all(
        a["role"] == "img" and a["tabindex"] == "0" and len(a["aria-label"] or "") > 30 for a in charts
    )
    shown = " ".join(reader.texts)
    for name, figure in FIGURES.items():
        assert figure.definition in shown and figure.limits in shown, name
        svg = (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.startswith("<svg") and figure.title in svg
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_sections_have_unique_ids_and_links_that_lead_somewhere(text: str) -> None:
    reader = Reader(text)
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(ids) == len(set(ids))
    links = {
        (a["href"] or "")[1:] for tag, a in reader.tags if tag == "a" and (a["href"] or "").startswith("#")
    }
    assert links <= set(ids)


def test_same_results_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = sample.write(tmp_path / "again")
    page._bundle.cache_clear()
    render(again)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in (".html", ".svg"))
    assert len(names) == 1 + len(FIGURES)
    assert [str(n) for n in names if (folder / n).read_bytes() != (again / n).read_bytes()] == []


def test_rendering_again_replaces_page_and_figures_and_leaves_the_rest(tmp_path: Path) -> None:
    made = sample.write(tmp_path / "out")
    (made / "figures").mkdir()
    (made / "figures" / "stale.svg").write_text("old")
    (made / "own.txt").write_text("mine")
    assert render(made) == made / "report.html"
    assert not (made / "figures" / "stale.svg").exists()
    assert sorted(path.name for path in made.iterdir()) == [
        "figures",
        "own.txt",
        "report.html",
        "report.json",
        "tables",
    ]


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample.write(tmp_path / "out")
    (made / "figures").mkdir()
    (made / "figures" / "old.svg").write_text("old")
    (made / "report.html").write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(page, "write_figures", fail)
    with pytest.raises(OSError, match="disk full"):
        render(made)
    assert (made / "figures" / "old.svg").read_text() == "old"
    assert (made / "report.html").read_text() == "old"
    assert sorted(path.name for path in made.iterdir()) == ["figures", "report.html", "report.json", "tables"]


def test_figures_not_drawn_are_listed_with_their_reason(tmp_path: Path) -> None:
    made = sample.write(tmp_path / "out")
    (made / "tables" / "turns.parquet").unlink()
    text = render(made, figures=False).read_text(encoding="utf-8")
    assert "<tr><td>Turns of a session</td><td>no table turns in this result</td></tr>" in text
    assert 'data-figure="turns"' not in text
    assert not (made / "figures" / "turns.svg").exists()


def test_a_folder_without_a_result_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.json: not found\. Name a folder that"):
        render(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(DataError, match="not readable as JSON"):
        render(tmp_path)
    (tmp_path / "report.json").write_text("[]")
    with pytest.raises(DataError, match="not the document of a report"):
        render(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "tables" / "rate.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(DataError, match="a table cannot be read"):
        render(tmp_path)


def test_a_result_without_any_table_still_makes_a_page(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "report.json").write_text("{}")
    text = render(tmp_path, figures=False).read_text(encoding="utf-8")
    assert "not known: the result has no ledger." in text
    assert text.count("<figure") == 0


def test_script_json_sorts_and_escapes() -> None:
    assert script_json({"b": "</script>&\u2028", "a": 1}) == (
        '{"a":1,"b":"\\u003c/script\\u003e\\u0026\\u2028"}'
    )
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_a_page_without_figure_files_links_none_and_leaves_none(tmp_path: Path) -> None:
    made = sample.write(tmp_path / "out")
    render(made)
    text = render(made, figures=False).read_text(encoding="utf-8")
    assert not (made / "figures").exists()
    assert "figures/" not in text.split('<script id="data"')[0]
    assert text.count('class="chart"') == len(FIGURES)
