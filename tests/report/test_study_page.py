"""The study's tab: drawn when it is shown, readable, quiet, reached by address and keyboard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from servescope.report.charts import FIGURES
from servescope.report.page import render
from servescope.report.study import STUDY
from tests.report import sample, study_sample
from tests.report.test_browser import (
    CHARTS,
    LOOKS,
    SMALLEST_TEXT,
    WAIT_S,
    WIDER_THAN_THE_WINDOW,
    _requested,
    browser,
    pytestmark,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["browser", "pytestmark"]
WITH_THE_STUDY = len(FIGURES)
SHOWN = "return [...document.querySelectorAll('.chart')].filter(p => !p.closest('[hidden]')).length"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(
        study_sample.write(tmp_path_factory.mktemp("study") / "out", compare="chutes"), figures=False
    )


def _wait(browser: Any, count: int) -> None:
    end = time.monotonic() + 2 * WAIT_S
    while browser.execute_script("return document.documentElement.dataset.drawn") != str(count):
        assert time.monotonic() < end, "the figures were not drawn in time"
        time.sleep(0.05)


def _open(browser: Any, address: str, width: int = 1600, look: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": look}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(address)


@pytest.mark.parametrize(("width", "look"), LOOKS)
def test_every_figure_of_the_study_is_drawn_and_readable(
    browser: Any, page: Path, width: int, look: str
) -> None:
    _open(browser, page.as_uri() + "#study", width, look)
    _wait(browser, len(STUDY))
    charts = [chart for chart in browser.execute_script(CHARTS) if chart["name"] in STUDY]
    assert [chart["name"] for chart in charts] == list(STUDY)
    for chart in charts:
        assert chart["marks"] >= 1, chart
        assert chart["height"] > 100 and 200 < chart["width"] <= chart["room"] + 1, chart
        assert chart["cut"] == [], chart
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(WIDER_THAN_THE_WINDOW) == []
    size, where = browser.execute_script(SMALLEST_TEXT)
    assert size >= 11, where
    assert browser.get_log("browser") == []
    assert set(_requested(browser)) <= {page.as_uri(), page.as_uri() + "#study", "data:,", "about:blank"}


def test_the_hidden_part_is_drawn_when_it_is_shown(browser: Any, page: Path) -> None:
    _open(browser, page.as_uri())
    _wait(browser, WITH_THE_STUDY)
    assert browser.execute_script(SHOWN) == WITH_THE_STUDY
    assert browser.execute_script("return document.querySelectorAll('#study svg').length") == 0
    browser.find_element("id", "tab-study").click()
    _wait(browser, len(STUDY))
    assert browser.find_element("id", "tab-study").get_attribute("aria-selected") == "true"
    assert browser.execute_script("return document.querySelectorAll('#study .chart svg').length") == len(
        STUDY
    )
    browser.find_element("id", "tab-report").click()
    _wait(browser, WITH_THE_STUDY)
    assert not browser.find_element("id", "study").is_displayed()
    widths = browser.execute_script(CHARTS)
    assert all(chart["width"] > 200 for chart in widths if chart["name"] in FIGURES)
    assert browser.get_log("browser") == []


def test_a_look_changed_on_one_part_is_the_look_of_the_other(browser: Any, page: Path) -> None:
    _open(browser, page.as_uri())
    _wait(browser, WITH_THE_STUDY)
    browser.find_element("id", "theme").click()
    browser.find_element("id", "tab-study").click()
    _wait(browser, len(STUDY))
    script = "return getComputedStyle(document.querySelector('#study .chart .role-axis-label text')).fill"
    dark = [int(part) for part in browser.execute_script(script).strip("rgb()").split(",")]
    assert sum(dark) / 3 > 140


def test_an_address_of_a_figure_shows_its_part(browser: Any, page: Path) -> None:
    _open(browser, page.as_uri() + "#figure-d7_iat_pair_ttl_coverage")
    _wait(browser, len(STUDY))
    assert browser.find_element("id", "figure-d7_iat_pair_ttl_coverage").is_displayed()


def test_names_from_the_trace_run_nothing_on_the_study(browser: Any, page: Path) -> None:
    _open(browser, page.as_uri() + "#study")
    _wait(browser, len(STUDY))
    assert browser.execute_script("return typeof window.broken") == "undefined"
    assert browser.execute_script("return document.querySelectorAll('img, iframe').length") == 0


def test_a_trace_without_the_studys_tables_has_no_tabs(tmp_path: Path) -> None:
    text = render(sample.write(tmp_path / "out"), figures=False).read_text(encoding="utf-8")
    assert 'role="tab"' not in text and 'id="study"' not in text


def test_the_page_lists_definitions_counts_errors_and_differences(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for figure in STUDY.values():
        assert f'<span class="code">{figure.code}</span>' in text
        assert f'<p class="origin">{figure.origin}</p>' in text
    assert text.count("<b>Counted.</b>") == len(STUDY)
    assert text.count("<b>Differs.</b>") == sum(bool(figure.differs) for figure in STUDY.values())
    assert "CC BY 4.0" in text and "<th>Published</th>" in text
    assert page.stat().st_size < 6_000_000


def test_figures_of_the_study_are_files_too(tmp_path: Path) -> None:
    folder = study_sample.write(tmp_path / "out")
    for path in (folder / "tables").glob("*.parquet"):
        if path.stem not in ("pair_gap_hist", "pair_gap", "user_month_gap"):
            path.unlink()
    text = render(folder).read_text(encoding="utf-8")
    files = {path.stem for path in (folder / "figures").iterdir()}
    assert files == {
        "d5_iat_monthly_per_user_band",
        "d6_per_user_iat_p50_by_model",
        "d7_iat_pair_ttl_coverage",
    }
    assert "<td>B5</td>" in text and 'href="figures/d7_iat_pair_ttl_coverage.svg"' in text
